"""Recovery plan, without I/O: selects the staged commits to ratify, according to the tables.

Commits in `_delta_log` are committed. A later staged commit is possible only under these conditions:

- Every version before it has a possible commit, with an earlier timestamp.
- The files added by the commit exist.
- Its transaction has no other version, and was not staged again later.
- In a transaction over several tables, every table has its part.

Evidence of one table is valid for the others: if one part of a transaction is in a `_delta_log`, all parts are
committed. If a single commit remains for a version, the plan takes the commit: the owner may have acknowledged it, and
no writer received a failure. If several remain, the outcome is unknown, and the user decides. Source:
managed-commits.md "Commit Files", "Commit Protocol".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Versions = dict[int, list["Candidate"]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A staged commit of a version not yet backfilled. `attempt` is the same for all files of one attempt.

    `table_ids` are the tables of a transaction over several tables. `missing` is an added but missing file, '' for
    none.
    """

    table_id: str
    version: int
    file_name: str
    attempt: str
    txn_id: str
    timestamp_ms: int
    table_ids: Sequence[str] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class TableEvidence:
    """The known facts about a table: its newest backfilled version and the staged commits after this version.

    `backfilled` maps transactions of the newest backfilled commits to their timestamps. `proven` are staged files
    ratified by the owner's database or accepted by the user. `refused` are staged files rejected by the user.
    """

    table_id: str
    name: str
    version: int
    timestamp_ms: int
    backfilled: Mapping[str, int] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()
    proven: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()


@dataclass
class Plan:
    """Decisions of a recovery: commits to take by table id, in order; rejected commits with reasons; open questions."""

    taken: dict[str, list[Candidate]] = field(default_factory=dict)
    left: list[tuple[Candidate, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


def decide(facts: Sequence[TableEvidence]) -> Plan:
    """Return the plan. The result is deterministic."""
    return _Decision({each.table_id: each for each in facts}).plan()


class _Decision:
    def __init__(self, facts: Mapping[str, TableEvidence]) -> None:
        self._facts = facts
        self._left: dict[Candidate, str] = {}
        self._asked: dict[str, None] = {}
        # Proven attempts and their evidence.
        self._proofs: dict[str, str] = {}
        self._possible: dict[str, Versions] = {}
        for table_id, each in sorted(facts.items()):
            versions: Versions = {}
            for candidate in sorted(each.candidates, key=lambda c: (c.version, c.file_name)):
                versions.setdefault(candidate.version, []).append(candidate)
            self._possible[table_id] = versions

    def plan(self) -> Plan:
        self._prove()
        while self._narrow():
            pass
        plan = Plan(left=list(self._left.items()))
        for table_id, each in self._facts.items():
            plan.taken[table_id] = self._chain(each)
        self._ask_for_proven(plan)
        plan.questions = [*self._asked]
        return plan

    def _prove(self) -> None:
        for candidate in self._all():
            facts = self._facts[candidate.table_id]
            if candidate.file_name in facts.proven:
                self._proofs.setdefault(candidate.attempt, "the database or the caller accepts it")
            for other in self._facts.values():
                at_ms = other.backfilled.get(candidate.txn_id)
                if other is not facts and at_ms == candidate.timestamp_ms:
                    self._proofs.setdefault(candidate.attempt, f"its transaction is in the log of {other.name}")

    def _narrow(self) -> bool:
        """Reject impossible candidates. Return whether any was rejected."""
        before = len(self._left)
        for facts in self._facts.values():
            for candidate in self._of(facts):
                reason = self._why_not(facts, candidate)
                if reason:
                    self._leave(candidate, reason)
        return len(self._left) > before

    def _why_not(self, facts: TableEvidence, candidate: Candidate) -> str:
        if candidate.file_name in facts.refused:
            return "the caller excluded it"
        if candidate.txn_id in facts.backfilled:
            return "its transaction has another version in the log"
        least_ms = facts.timestamp_ms
        for version in range(facts.version + 1, candidate.version):
            before = self._possible[facts.table_id].get(version)
            if not before:
                return f"version {version} before it is missing"
            least_ms = max(least_ms, min(c.timestamp_ms for c in before))
        if candidate.timestamp_ms <= least_ms:
            return (
                f"its timestamp {candidate.timestamp_ms} is not after {least_ms}, the timestamp of the version before"
            )
        if candidate.attempt in self._proofs:
            return ""
        for other in facts.candidates:
            if other.version == candidate.version and other.attempt in self._proofs:
                return f"version {candidate.version} is {other.file_name}"
            # A writer stages again only after its previous attempt was abandoned.
            if other.txn_id == candidate.txn_id and other.timestamp_ms > candidate.timestamp_ms:
                return f"its transaction was staged again, as {other.file_name}"
        if candidate.missing:
            return f"it adds the file {candidate.missing}, which does not exist"
        return self._why_not_together(candidate)

    def _why_not_together(self, candidate: Candidate) -> str:
        for table_id in candidate.table_ids:
            other = self._facts.get(table_id)
            if other is None:
                self._asked[
                    f"transaction {candidate.txn_id}, with the part {candidate.file_name}, also wrote the table "
                    f"with the id {table_id}, which is not recovered. Name the location of that table, or choose "
                    f"whether {candidate.file_name} is committed"
                ] = None
            elif not any(c.attempt == candidate.attempt for c in self._of(other)):
                return f"{other.name} has no part of its transaction"
        return ""

    def _chain(self, facts: TableEvidence) -> list[Candidate]:
        chain: list[Candidate] = []
        for version in range(facts.version + 1, facts.version + 1 + len(self._possible[facts.table_id])):
            found = self._possible[facts.table_id].get(version, [])
            if len(found) > 1:
                names = ", ".join(f"{c.file_name} (at {c.timestamp_ms})" for c in found)
                self._asked[f"{facts.name}: version {version} may be any of {names}. Choose the committed one"] = None
            if len(found) != 1:
                break
            chain.append(found[0])
        return chain

    def _ask_for_proven(self, plan: Plan) -> None:
        """Add a question for each proven commit not in the plan."""
        for candidate in self._all():
            proof = self._proofs.get(candidate.attempt)
            is_open = candidate in self._left or candidate not in plan.taken[candidate.table_id]
            facts = self._facts[candidate.table_id]
            is_answered = candidate.txn_id in facts.backfilled or candidate.file_name in facts.refused
            if proof and is_open and not is_answered:
                why = self._left.get(candidate, "an earlier version is undecided")
                self._asked[f"{facts.name}: {candidate.file_name} is committed, because {proof}, but {why}"] = None

    def _leave(self, candidate: Candidate, reason: str) -> None:
        self._possible[candidate.table_id][candidate.version].remove(candidate)
        self._left[candidate] = reason

    def _of(self, facts: TableEvidence) -> list[Candidate]:
        return [c for _, found in sorted(self._possible[facts.table_id].items()) for c in found]

    def _all(self) -> list[Candidate]:
        return [c for facts in self._facts.values() for c in facts.candidates]

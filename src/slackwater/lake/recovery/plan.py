"""Which staged commits count, as far as the tables themselves tell: the decision of a recovery, without I/O.

What is in `_delta_log` counts. Behind it a commit may count only where every version before it has one that may; where
its time is after theirs; where the files that it adds are there; where its transaction has no other version, and was
not staged again later; and, of a transaction over several tables, where each of them has its part. What one table
proves holds in the others: of a transaction with a part in some `_delta_log`, all parts count. Where one commit is left
for a version, it is taken: the owner may have acknowledged it, and no writer was told that it did not land. Where
several are left, it is not known which one counts, and the user says. Source: managed-commits.md "Commit Files",
"Commit Protocol".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Versions = dict[int, list["Candidate"]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A staged commit of a version that is not backfilled; `attempt` is the UUID in its name.

    `table_ids` are the tables of its transaction where these are several; `missing` is a file that it adds and that is
    not there, '' for none.
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
    """What is known of a table: how far its log has come, and what is staged behind that.

    `backfilled` are the times of the newest backfilled commits by their transactions. `proven` are the staged files
    that count, as the owner's database or the user says; `refused` those that do not, as the user says.
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
    """What counts of each table, by its id and in order; what was left, and why; what the user has to say first."""

    taken: dict[str, list[Candidate]] = field(default_factory=dict)
    left: list[tuple[Candidate, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)


def decide(facts: Sequence[TableEvidence]) -> Plan:
    """The plan; the same facts give the same one."""
    return _Decision({each.table_id: each for each in facts}).plan()


class _Decision:
    def __init__(self, facts: Mapping[str, TableEvidence]) -> None:
        self._facts = facts
        self._left: dict[Candidate, str] = {}
        self._asked: dict[str, None] = {}
        # Attempts that count, by what tells so.
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
                self._proofs.setdefault(candidate.attempt, "it is known to count")
            for other in self._facts.values():
                at_ms = other.backfilled.get(candidate.txn_id)
                if other is not facts and at_ms == candidate.timestamp_ms:
                    self._proofs.setdefault(candidate.attempt, f"its transaction is in the log of {other.name}")

    def _narrow(self) -> bool:
        """Leave out what cannot count; whether there was anything."""
        before = len(self._left)
        for facts in self._facts.values():
            for candidate in self._of(facts):
                reason = self._why_not(facts, candidate)
                if reason:
                    self._leave(candidate, reason)
        return len(self._left) > before

    def _why_not(self, facts: TableEvidence, candidate: Candidate) -> str:
        if candidate.file_name in facts.refused:
            return "it was said not to count"
        if candidate.txn_id in facts.backfilled:
            return "its transaction has another version in the log"
        least_ms = facts.timestamp_ms
        for version in range(facts.version + 1, candidate.version):
            before = self._possible[facts.table_id].get(version)
            if not before:
                return f"there is no version {version} before it"
            least_ms = max(least_ms, min(c.timestamp_ms for c in before))
        if candidate.timestamp_ms <= least_ms:
            return f"its time, {candidate.timestamp_ms}, is not after {least_ms}, that of the version before"
        if candidate.attempt in self._proofs:
            return ""
        for other in facts.candidates:
            if other.version == candidate.version and other.attempt in self._proofs:
                return f"version {candidate.version} is {other.file_name}"
            # Another attempt is made when the one before was given up.
            if other.txn_id == candidate.txn_id and other.timestamp_ms > candidate.timestamp_ms:
                return f"its transaction was staged again, as {other.file_name}"
        if candidate.missing:
            return f"the file {candidate.missing}, which it adds, is not there"
        return self._why_not_together(candidate)

    def _why_not_together(self, candidate: Candidate) -> str:
        for table_id in candidate.table_ids:
            other = self._facts.get(table_id)
            if other is None:
                self._asked[
                    f"transaction {candidate.txn_id}, of which {candidate.file_name} is a part, wrote the table with "
                    f"the id {table_id} as well, which is not among those that are recovered: say where it is, or "
                    f"whether {candidate.file_name} counts"
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
                self._asked[f"{facts.name}: version {version} may be any of {names}: say which one counts"] = None
            if len(found) != 1:
                break
            chain.append(found[0])
        return chain

    def _ask_for_proven(self, plan: Plan) -> None:
        """What is known to count must be taken."""
        for candidate in self._all():
            proof = self._proofs.get(candidate.attempt)
            is_open = candidate in self._left or candidate not in plan.taken[candidate.table_id]
            facts = self._facts[candidate.table_id]
            is_answered = candidate.txn_id in facts.backfilled or candidate.file_name in facts.refused
            if proof and is_open and not is_answered:
                why = self._left.get(candidate, "a version before it is not settled")
                self._asked[f"{facts.name}: {candidate.file_name} counts, since {proof}, but {why}"] = None

    def _leave(self, candidate: Candidate, reason: str) -> None:
        self._possible[candidate.table_id][candidate.version].remove(candidate)
        self._left[candidate] = reason

    def _of(self, facts: TableEvidence) -> list[Candidate]:
        return [c for _, found in sorted(self._possible[facts.table_id].items()) for c in found]

    def _all(self) -> list[Candidate]:
        return [c for facts in self._facts.values() for c in facts.candidates]

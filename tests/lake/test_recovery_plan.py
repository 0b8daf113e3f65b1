"""What a recovery decides from the tables alone, against what really happened."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from slackwater.lake.recovery.plan import Candidate, Plan, TableEvidence, decide


def staged(version: int, attempt: str, txn: str = "", at_ms: int = 0, table: str = "a", **more: object) -> Candidate:
    name = f"{version:020}.{attempt}.json"
    return Candidate(table, version, name, attempt, txn or attempt, at_ms or version * 10, **more)  # type: ignore[arg-type]


def facts(*candidates: Candidate, table: str = "a", version: int = 0, **more: object) -> TableEvidence:
    return TableEvidence(table, table.upper(), version, version * 10, candidates=candidates, **more)  # type: ignore[arg-type]


def names(plan: Plan, table: str = "a") -> list[str]:
    return [each.attempt for each in plan.taken[table]]


def reasons(plan: Plan) -> dict[str, str]:
    return {each.attempt: reason for each, reason in plan.left}


def test_an_unbroken_chain_of_single_commits_counts() -> None:
    plan = decide([facts(staged(1, "x"), staged(2, "y"), staged(4, "z"))])
    assert names(plan) == ["x", "y"]
    assert reasons(plan) == {"z": "version 3 before it is missing"}
    assert plan.questions == []


def test_of_several_for_one_version_the_user_says_which() -> None:
    several = [staged(1, "x", at_ms=10), staged(1, "y", at_ms=11), staged(2, "z")]
    (question,) = decide([facts(*several)]).questions
    assert question.startswith("A: version 1 may be any of")
    assert several[0].file_name in question
    assert several[1].file_name in question
    chosen = decide([facts(*several, proven=frozenset([several[1].file_name]))])
    assert (names(chosen), chosen.questions) == (["y", "z"], [])
    assert reasons(chosen) == {"x": f"version 1 is {several[1].file_name}"}
    refused = decide([facts(*several, refused=frozenset([several[1].file_name]))])
    assert (names(refused), refused.questions) == (["x", "z"], [])


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (staged(1, "x", at_ms=5), "its timestamp 5 is not after 5"),
        (staged(1, "x", txn="old"), "its transaction has another version in the log"),
        (staged(1, "x", missing="f.parquet"), "it adds the file f.parquet, which does not exist"),
        (staged(1, "x", table_ids=("a", "b")), "B has no part of its transaction"),
    ],
)
def test_what_cannot_have_counted_is_left(left: Candidate, reason: str) -> None:
    own = TableEvidence("a", "A", 0, 5, {"old": 5}, [left])
    plan = decide([own, facts(table="b")])
    assert names(plan) == []
    assert reasons(plan)["x"].startswith(reason)
    assert plan.questions == []


def test_an_attempt_that_was_followed_by_another_of_its_transaction_did_not_count() -> None:
    plan = decide([facts(staged(1, "x", "t", 11), staged(1, "y", "t", 12))])
    assert names(plan) == ["y"]


def test_of_a_transaction_over_several_tables_all_parts_count_or_none() -> None:
    both = ("a", "b")
    parts = [staged(2, "t", at_ms=30, table_ids=both), staged(1, "t", at_ms=30, table="b", table_ids=both)]
    whole = decide([facts(staged(1, "x"), parts[0]), facts(parts[1], table="b")])
    assert (names(whole, "a"), names(whole, "b")) == (["x", "t"], ["t"])
    # In `a` a version before it is nowhere, so it does not count in `b` either.
    torn = decide([facts(parts[0]), facts(parts[1], table="b")])
    assert (names(torn, "a"), names(torn, "b")) == ([], [])
    assert torn.questions == []


def test_a_part_in_the_log_of_one_table_proves_those_of_others() -> None:
    both = ("a", "b")
    part = staged(1, "t", at_ms=30, table_ids=both)
    others = [staged(1, "y", at_ms=20), part]
    plan = decide([facts(*others), facts(table="b", version=1, backfilled={"t": 30})])
    assert (names(plan), plan.questions) == (["t"], [])
    assert reasons(plan) == {"y": f"version 1 is {part.file_name}"}


def test_what_is_known_to_count_and_cannot_is_asked_about() -> None:
    part = staged(2, "t", at_ms=30)
    (question,) = decide([facts(part, proven=frozenset([part.file_name]))]).questions
    proof = "the database or the caller accepts it"
    assert question == f"A: {part.file_name} is committed, because {proof}, but version 1 before it is missing"


def test_a_table_of_a_transaction_that_is_not_there_is_asked_for() -> None:
    part = staged(1, "t", table_ids=("a", "elsewhere"))
    (question,) = decide([facts(part)]).questions
    assert "the id elsewhere" in question
    said = decide([facts(part, proven=frozenset([part.file_name]))])
    assert (names(said), said.questions) == (["t"], [])


@dataclass
class World:
    """Tables under an owner whose processes die: what was ratified, and what is left in the tables."""

    random: random.Random
    tables: Sequence[str] = ("a", "b", "c")
    ratified: dict[str, list[Candidate]] = field(default_factory=dict)
    files: dict[str, list[Candidate]] = field(default_factory=dict)
    written: dict[str, Sequence[str]] = field(default_factory=dict)
    clock_ms: int = 100

    def run(self, num_transactions: int) -> None:
        self.ratified = {table: [] for table in self.tables}
        self.files = {table: [] for table in self.tables}
        for number in range(num_transactions):
            self._transaction(f"t{number}")

    def _transaction(self, txn: str) -> None:
        chance = self.random.random
        tables = sorted(self.random.sample(self.tables, self.random.randint(1, len(self.tables))))
        self.written[txn] = tables
        for again in range(self.random.randint(1, 3)):
            self.clock_ms += self.random.randint(1, 5)
            ids = tuple(tables) if len(tables) > 1 else ()
            parts = [
                staged(len(self.ratified[t]) + 1, f"{txn}-{again}", txn, self.clock_ms, t, table_ids=ids)
                for t in tables
            ]
            if chance() < 0.15:
                # The process dies while it stages: some files are there.
                parts = self.random.sample(parts, self.random.randint(0, len(parts) - 1))
                self._keep(parts)
                return
            if chance() < 0.2:
                # The versions are given back; seldom are the files left.
                if chance() < 0.2:
                    self._keep(parts)
                continue
            self._keep(parts)
            if chance() < 0.1:
                # All are staged, and the process dies before it ratifies them.
                return
            for part in parts:
                self.ratified[part.table_id].append(part)
            return

    def _keep(self, parts: Sequence[Candidate]) -> None:
        for part in parts:
            self.files[part.table_id].append(part)

    def facts(self) -> list[TableEvidence]:
        found = []
        for table in self.tables:
            done = self.random.randint(0, len(self.ratified[table]))
            log = self.ratified[table][:done]
            rest = [each for each in self.files[table] if each.version > done]
            at_ms = log[-1].timestamp_ms if log else 50
            found.append(TableEvidence(table, table, done, at_ms, {c.txn_id: c.timestamp_ms for c in log}, rest))
        return found


@pytest.mark.parametrize("seed", range(400))
def test_what_was_ratified_is_taken_or_asked_about_and_transactions_stay_whole(seed: int) -> None:
    world = World(random.Random(seed))  # noqa: S311
    world.run(12)
    found = world.facts()
    plan = decide(found)
    for each in found:
        truth = world.ratified[each.table_id][each.version :]
        taken = plan.taken[each.table_id]
        if not plan.questions:
            assert taken[: len(truth)] == truth
        else:
            agreed = min(len(taken), len(truth))
            assert taken[:agreed] == truth[:agreed]
    if plan.questions:
        return
    counts = {each.table_id: {*each.backfilled, *(c.txn_id for c in plan.taken[each.table_id])} for each in found}
    for txn, tables in world.written.items():
        assert len({txn in counts[table] for table in tables}) == 1, f"{txn} of {tables} is torn"


def test_questions_are_seldom() -> None:
    asked = 0
    for seed in range(400):
        world = World(random.Random(seed))  # noqa: S311
        world.run(12)
        asked += bool(decide(world.facts()).questions)
    assert 0 < asked < 120

"""Transactions that run at once, against a plain dict: what lands is what a run one after the other would have made.

Data files are lists of rows that the test keeps by path, so nothing but the log and deletion vectors is stored.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from slackwater.errors import DeltaConcurrentModificationException
from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.properties.properties import ENABLE_DELETION_VECTORS, ENABLE_ROW_TRACKING
from slackwater.protocol.schema.schema import parse_schema
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.row_reads import RowsRead
from slackwater.transaction.rows.file_action_rows import as_adds, as_removes
from slackwater.transaction.table.alteration import change_table, set_properties
from tests.transaction.tables import START_MS, VECTORS, begin, commit_actions, schema, table, vector_files

KEYS = 12
COLUMNS = {"id": "long", "v": "long"}
SCHEMA = schema(COLUMNS)


@dataclass(frozen=True, slots=True)
class Row:
    """A row with an identity of its own, by which it is known wherever it is."""

    identity: int
    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Condition:
    """Keys from `low` to `high`, and of these the values of one parity, of which statistics know nothing."""

    low: int
    high: int
    parity: int | None

    def __call__(self, row: Row) -> bool:
        return self.low <= row.key <= self.high and self.parity in (None, row.value % 2)

    @property
    def predicate(self) -> Predicate:
        return _range(self.low, self.high)


@lru_cache(None)
def _range(low: int, high: int) -> Predicate:
    return parse_predicate(f"id >= {low} AND id <= {high}", parse_schema(SCHEMA))


@dataclass(frozen=True)
class Effect:
    """What a transaction does to the rows of the table: identities that go, keys and values that come."""

    gone: frozenset[int] = frozenset()
    new: tuple[tuple[int, int], ...] = ()


Decide = Callable[[Iterable[Row]], Effect]


@dataclass
class Open:
    """A transaction that has done its work and not committed: `decide` is what it does to rows that it sees."""

    transaction: TableTransaction
    name: str
    decide: Decide
    effect: Effect
    added: list[Row] = field(default_factory=list)
    restored: list[Row] = field(default_factory=list)
    commit: Callable[[], object] | None = None


def _deletes(condition: Condition) -> Decide:
    return lambda rows: Effect(frozenset(r.identity for r in rows if condition(r)))


def _updates(condition: Condition) -> Decide:
    def decide(rows: Iterable[Row]) -> Effect:
        found = [r for r in rows if condition(r)]
        return Effect(frozenset(r.identity for r in found), tuple(sorted((r.key, r.value + 1) for r in found)))

    return decide


def _counts(condition: Condition) -> Decide:
    return lambda rows: Effect(new=((condition.low, sum(map(condition, rows))),))


class World:
    """One table, the rows of its files, the transactions that are open, and the rows there should be."""

    def __init__(self, level: str, tracked: bool) -> None:
        properties = {**VECTORS, "delta.isolationLevel": level}
        created = table(COLUMNS, properties={**properties, **({ENABLE_ROW_TRACKING: "true"} if tracked else {})})
        self.store = created.store
        self.newest = created
        self.is_serializable = level == "Serializable"
        self.contents: dict[str, list[Row]] = {}
        self.rows: dict[int, Row] = {}
        self.open: list[Open] = []
        self.landed: Counter[str] = Counter()
        self.rebased = 0
        self.bases: dict[str, int] = {}
        self._numbers = itertools.count()

    # What transactions see.

    def live(self, files: pa.Table) -> dict[str, list[tuple[int, Row]]]:
        """The live rows of `files` with their places, by path."""
        nodes = files["deletionVector"].to_pylist()
        loaded = iter(load_deletion_vectors(self.store, [node for node in nodes if node]))
        gone = [next(loaded) if node else BitMap64() for node in nodes]
        paths = files["path"].to_pylist()
        assert len(set(paths)) == len(paths), "a path is live under two vectors"
        return {
            path: [(place, row) for place, row in enumerate(self.contents[path]) if place not in vector]
            for path, vector in zip(paths, gone, strict=True)
        }

    def new_file(self, values: Sequence[tuple[int, int]], bounds: bool, data_change: bool = True) -> AddFile:
        rows = [Row(next(self._numbers), key, value) for key, value in values]
        return self.file_of(rows, bounds, data_change)

    def file_of(self, rows: Sequence[Row], bounds: bool, data_change: bool) -> AddFile:
        path = f"f{next(self._numbers)}"
        self.contents[path] = list(rows)
        stats: dict[str, Any] = {"numRecords": len(rows)}
        if bounds:
            keys = [row.key for row in rows]
            stats |= {"minValues": {"id": min(keys)}, "maxValues": {"id": max(keys)}, "nullCount": {"id": 0}}
        return AddFile(path, {}, 100, START_MS, data_change, json.dumps(stats))

    # What transactions do.

    def begin(self, kind: str, condition: Condition, knowledge: str, bounds: bool) -> None:
        snapshot = self.newest
        transaction = begin(snapshot)
        work = getattr(self, f"_{kind}")
        started = work(transaction, snapshot, condition, knowledge, bounds)
        if started is not None:
            self.open.append(started)

    def _read(self, transaction: TableTransaction, snapshot: Snapshot, condition: Condition, knowledge: str) -> None:
        live = self.live(snapshot.live_files())
        places = {path: BitMap64(p for p, row in rows if condition(row)) for path, rows in live.items()}
        found: dict[str, BitMap64 | None] = {path: rows for path, rows in places.items() if rows}
        if knowledge == "files":
            found = dict.fromkeys(found)

        def matches(_snapshot: Snapshot, files: pa.Table) -> bool:
            return any(condition(row) for rows in self.live(files).values() for _, row in rows)

        asked = matches if knowledge == "all" else None
        transaction.read_where(condition.predicate, None if knowledge == "none" else RowsRead(found, asked))

    def _append(self, transaction: TableTransaction, _s: Snapshot, condition: Condition, _k: str, bounds: bool) -> Open:
        values = tuple((key, key + condition.high) for key in range(condition.low, condition.high + 1))
        file = self.new_file(values, bounds)
        transaction.add(file, fresh=True)
        effect = Effect(new=values)
        return Open(transaction, "append", lambda _rows: effect, effect, self.contents[file.path])

    def _count(
        self, transaction: TableTransaction, s: Snapshot, condition: Condition, know: str, bounds: bool
    ) -> Open | None:
        self._read(transaction, s, condition, know)
        return self._change(transaction, s, _counts(condition), "count", bounds, True)

    def _delete(
        self, transaction: TableTransaction, s: Snapshot, condition: Condition, know: str, bounds: bool
    ) -> Open | None:
        self._read(transaction, s, condition, know)
        return self._change(transaction, s, _deletes(condition), "delete", bounds, self._has_vectors(s))

    def _update(
        self, transaction: TableTransaction, s: Snapshot, condition: Condition, know: str, bounds: bool
    ) -> Open | None:
        self._read(transaction, s, condition, know)
        return self._change(transaction, s, _updates(condition), "update", bounds, self._has_vectors(s))

    def _strike(
        self, transaction: TableTransaction, s: Snapshot, condition: Condition, _k: str, bounds: bool
    ) -> Open | None:
        """Rows are deleted whatever becomes of the condition that once found them."""
        started = self._change(transaction, s, _deletes(condition), "strike", bounds, self._has_vectors(s))
        if started is not None:
            effect = started.effect
            started.decide = lambda _rows: effect
        return started

    def _rewrite(
        self, transaction: TableTransaction, s: Snapshot, condition: Condition, know: str, bounds: bool
    ) -> Open | None:
        self._read(transaction, s, condition, know)
        return self._change(transaction, s, _deletes(condition), "rewrite", bounds, False)

    def _has_vectors(self, snapshot: Snapshot) -> bool:
        return snapshot.properties.flag(ENABLE_DELETION_VECTORS)

    def _change(
        self, transaction: TableTransaction, snapshot: Snapshot, decide: Decide, name: str, bounds: bool, vectors: bool
    ) -> Open | None:
        files = snapshot.live_files()
        live = self.live(files)
        effect = decide(row for rows in live.values() for _, row in rows)
        if not effect.gone and not effect.new:
            return None
        places = {path: [p for p, row in rows if row.identity in effect.gone] for path, rows in live.items()}
        touched = {path: BitMap64(found) for path, found in places.items() if found}
        if vectors:
            transaction.delete_rows(files, touched)
        else:
            transaction.remove(as_removes(files.filter(_among(files, touched)), START_MS))
            for path in touched:
                kept = [row for _, row in live[path] if row.identity not in effect.gone]
                transaction.add([self.file_of(kept, bounds, True)] if kept else [], fresh=True)
        added = self.new_file(effect.new, bounds) if effect.new else None
        transaction.add([added] if added else [], fresh=True)
        return Open(transaction, name, decide, effect, self.contents[added.path] if added else [])

    def _compact(
        self, transaction: TableTransaction, s: Snapshot, condition: Condition, _k: str, bounds: bool
    ) -> Open | None:
        files = s.live_files()
        files = files.slice(condition.low % max(files.num_rows, 1), 1 + condition.high % 3)
        rows = [row for rows in self.live(files).values() for _, row in rows]
        if not rows:
            return None
        transaction.remove(as_removes(files, START_MS, data_change=False))
        transaction.add(self.file_of(rows[::-1], bounds, False), fresh=True)
        return Open(transaction, "compact", lambda _rows: Effect(), Effect())

    def _restore(
        self, transaction: TableTransaction, s: Snapshot, condition: Condition, _k: str, _b: bool
    ) -> Open | None:
        """A file gets all its rows back."""
        files = s.live_files()
        files = files.filter(pa.compute.is_valid(files["deletionVector"])).slice(condition.low % 2, 1)
        if not files.num_rows:
            return None
        (path,), (node,) = files["path"].to_pylist(), files["deletionVector"].to_pylist()
        gone = load_deletion_vectors(self.store, [node])[0]
        transaction.remove(as_removes(files, START_MS))
        no_vector = files.set_column(
            files.schema.get_field_index("deletionVector"),
            files.schema.field("deletionVector"),
            pa.nulls(1, files.schema.field("deletionVector").type),
        )
        transaction.add(as_adds(no_vector, data_change=True))
        restored = [self.contents[path][place] for place in gone]
        return Open(transaction, "restore", lambda _rows: Effect(), Effect(), restored=restored)

    def _restate(
        self, transaction: TableTransaction, s: Snapshot, condition: Condition, _k: str, _b: bool
    ) -> Open | None:
        """Files are committed again as they are, as statistics or row ids are filled in."""
        files = s.live_files().slice(condition.low % 3, 2)
        if not files.num_rows:
            return None
        transaction.add(as_adds(files, data_change=False))
        return Open(transaction, "restate", lambda _rows: Effect(), Effect())

    def _alter(self, transaction: TableTransaction, s: Snapshot, condition: Condition, _k: str, bounds: bool) -> Open:
        """The schema gets a column, or a property changes that may or may not concern others."""
        turned = "false" if self._has_vectors(s) else "true"
        choices: list[dict[str, str] | None] = [
            None,
            {"owner": str(condition.low)},
            {ENABLE_ROW_TRACKING: "true"},
            {ENABLE_DELETION_VECTORS: turned},
        ]
        chosen = choices[condition.high % 4]
        wider = s.configuration.changed(metadata=_wider(s.metadata))
        change = set_properties(s, chosen) if chosen else change_table(s, "ADD COLUMNS", wider)
        nothing = Effect()
        return Open(transaction, "alter", lambda _rows: nothing, nothing, commit=lambda: change.commit(transaction))

    # What becomes of it.

    def commit(self, which: int) -> None:
        """Commit an open transaction, and compare the table with the rows there should be."""
        mine = self.open.pop(which % len(self.open))
        before = self.newest.version
        try:
            if mine.commit is not None:
                mine.commit()
            else:
                mine.transaction.commit(mine.name.upper())
        except DeltaConcurrentModificationException:
            mine.transaction.discard_vectors()
            assert self.store.head(commit_path(before + 1)) is None
            return
        self.landed[mine.name] += 1
        assert mine.transaction.read_snapshot is not None
        self.rebased += mine.transaction.read_snapshot.version < before
        self._apply(mine)
        self._compare()

    def _apply(self, mine: Open) -> None:
        if self.is_serializable:
            assert mine.decide(self.rows.values()) == mine.effect, f"{mine.name} would have done something else now"
        assert mine.effect.gone <= self.rows.keys(), "a row was deleted twice"
        for identity in mine.effect.gone:
            del self.rows[identity]
        for row in (*mine.added, *mine.restored):
            assert row.identity not in self.rows, "a row came twice"
            self.rows[row.identity] = row

    def _compare(self) -> None:
        snapshot = self.newest = Snapshot.open(self.store)
        files = snapshot.live_files()
        found = [row for rows in self.live(files).values() for _, row in rows]
        assert sorted(row.identity for row in found) == sorted(self.rows)
        if snapshot.properties.flag(ENABLE_ROW_TRACKING):
            self._compare_row_ids(files)

    def _compare_row_ids(self, files: pa.Table) -> None:
        bases = dict(zip(files["path"].to_pylist(), files["baseRowId"].to_pylist(), strict=True))
        ids = [base + place for path, base in bases.items() for place in range(len(self.contents[path]))]
        assert len(set(ids)) == len(ids)
        for path, base in bases.items():
            assert self.bases.setdefault(path, base) == base, f"the rows of {path} have other ids now"

    def finish(self) -> None:
        """Commit what is open, and see that no deletion vector file is left that no commit speaks of."""
        while self.open:
            self.commit(0)
        log = [a for v in range(self.newest.version + 1) for a in commit_actions(self.store, v)]
        spoken_of = {
            str(node["deletionVector"]["pathOrInlineDv"])
            for action in log
            for node in (action.get("add"), action.get("remove"))
            if node and "deletionVector" in node
        }
        assert len(vector_files(self.store)) == len(spoken_of)


def _among(files: pa.Table, paths: Iterable[str]) -> pa.Array:
    return pa.compute.is_in(files["path"], value_set=pa.array(list(paths), pa.string()))


def _wider(metadata: Metadata) -> Metadata:
    columns = parse_schema(metadata.schema_string).names
    return replace(metadata, schema_string=schema(dict.fromkeys([*columns, f"c{len(columns)}"], "long")))


# What changes rows comes often: the others are there to get in its way.
KINDS = {
    "delete": 3,
    "update": 3,
    "strike": 3,
    "append": 1,
    "count": 3,
    "rewrite": 1,
    "compact": 2,
    "restore": 2,
    "restate": 1,
    "alter": 1,
}
Begin = tuple[str, Condition, str, bool]
Round = tuple[list[Begin], list[int]]


def _history(seed: int, rounds: int) -> list[Round]:
    """What begins in each round, and which of the open ones then commit: evenly spread, unlike what shrinks well."""
    chance = Random(seed)  # noqa: S311  (a history that can be had again, no secret)

    def one() -> Begin:
        low = chance.randrange(KEYS)
        high = min(low + chance.choice([0, 1, 2, 3, KEYS]), KEYS - 1)
        condition = Condition(low, high, chance.choice([None, 0, 1]))
        (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
        return kind, condition, chance.choice(["all", "all", "rows", "files", "none"]), chance.random() < 0.5

    return [
        ([one() for _ in range(chance.randint(2, 4))], [chance.randrange(6) for _ in range(chance.randint(1, 4))])
        for _ in range(rounds)
    ]


def _run(rounds: Sequence[Round], level: str, tracked: bool) -> World:
    world = World(level, tracked)
    for low in (0, KEYS // 3):
        world.begin("append", Condition(low, KEYS - 1 - low, None), "none", True)
        world.commit(0)
    for begun, committed in rounds:
        for one in begun:
            world.begin(*one)
        for which in committed[: len(world.open)]:
            world.commit(which)
    world.finish()
    return world


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_what_lands_is_what_a_run_one_after_the_other_would_have_made(
    level: str, request: pytest.FixtureRequest
) -> None:
    landed: Counter[str] = Counter()
    rebased = 0

    @settings(
        max_examples=10_000 if request.config.getoption("--long") else 60,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.integers(0, 2**32), st.integers(2, 5), st.booleans())
    def holds(seed: int, rounds: int, tracked: bool) -> None:
        nonlocal rebased
        world = _run(_history(seed, rounds), level, tracked)
        landed.update(world.landed)
        rebased += world.rebased

    holds()
    assert set(landed) == set(KINDS), "every kind of transaction must have landed"
    assert rebased > 80, "many commits must have followed others that they had not seen"

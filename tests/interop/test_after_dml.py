"""Rows that we delete, update and merge: other engines read what is left, and delta-spark goes on, and we after it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from .delta_spark import DeltaSpark
from .dml_cases import DML_CASES, Change, Delete, DmlCase, Merge, Update
from .log_checks import actions, commits_of
from .once import once
from .peers import PEERS, require_same_rows, why_absent
from .rows import Rows, expected_rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

_FEED = {"readChangeFeed": "true", "startingVersion": "0"}
_OPERATIONS = {Delete: "DELETE", Update: "UPDATE", Merge: "MERGE"}


@dataclass(frozen=True)
class ChangedTable:
    """A table whose rows we changed, as we read it back; nobody writes to it."""

    path: str
    rows: pa.Table


Changed = Callable[[DmlCase], ChangedTable]


@pytest.fixture(scope="module")
def changed(ours: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Changed:
    """Makes the table of a case and its first round of changes, once."""

    def change(case: DmlCase) -> ChangedTable:
        path = str(tmp_path_factory.mktemp("changed") / "table")
        case.feature.create_ours(ours, path)
        if case.plan.rows is not None:
            ours.sql(case.plan.rows).write.format("delta").mode("append").save(path)
        _run(ours, path, case.plan.first)
        return ChangedTable(path, _read(ours, path))

    return once(change)


def _cases(condition: Callable[[DmlCase], bool] = lambda case: True, variations: Collection[str] = ()) -> list[Any]:
    """The cases for which `condition` holds; variations, and those that are named as such, run with `--long`."""
    chosen = {case.name: case for case in DML_CASES if condition(case)}
    assert chosen.keys() >= set(variations)
    long = {name for name, case in chosen.items() if case.is_variation or name in variations}
    assert chosen.keys() > long
    return [
        pytest.param(case, id=name, marks=[pytest.mark.long] if name in long else []) for name, case in chosen.items()
    ]


@pytest.mark.parametrize("case", _cases())
def test_our_changes_leave_the_rows_that_they_should(case: DmlCase, changed: Changed) -> None:
    table, feature = changed(case), case.feature
    assert rows_of(table.rows, feature.varies) == expected_rows(feature.column_names, case.plan.holds)
    for column in feature.varies:
        assert len(table.rows[column].unique()) == table.rows.num_rows
    commits = commits_of(table.path)
    done = [info["operation"] for info in actions(commits, "commitInfo")[-len(case.plan.first) :]]
    assert done == [_OPERATIONS[type(change)] for change in case.plan.first]
    assert len(actions(commits, "protocol")) == 1
    if feature.check is not None:
        feature.check(_whole_files(commits))


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("case", _cases())
def test_another_engine_reads_what_we_changed(case: DmlCase, peer: str, changed: Changed) -> None:
    absent = why_absent(peer)
    if absent is not None:
        pytest.skip(absent)
    table = changed(case)
    unreadable = {**case.feature.unreadable, **case.unreadable}
    require_same_rows(lambda: PEERS[peer](table.path), table.rows, unreadable.get(peer))


@pytest.mark.parametrize("case", _cases(lambda case: case.has_feed))
def test_deltalake_tells_the_changes_that_we_made(case: DmlCase, changed: Changed, ours: SparkSession) -> None:
    absent = why_absent("datafusion")
    if absent is not None:
        pytest.skip(absent)
    path = changed(case).path
    # deltalake's times are those that writers state in commitInfo, not the ones of the commits.
    expected = _feed_table(ours, path).drop_columns("_commit_timestamp")
    require_same_rows(lambda: _feed_of_deltalake(path, expected.column_names), expected, case.changes_unreadable)


@pytest.mark.parametrize("case", _cases(lambda case: case.has_feed))
def test_files_of_changed_rows_are_their_own_change_data(case: DmlCase, changed: Changed) -> None:
    both: dict[str, int] = {}
    for commit in commits_of(changed(case).path):
        paths = {action["add"]["path"] for action in commit if action.get("add")}
        shared = paths & {action["cdc"]["path"] for action in commit if action.get("cdc")}
        (info,) = actions([commit], "commitInfo")
        both[info["operation"]] = len(shared)
    assert both["UPDATE"] > 0
    assert both["MERGE"] > 0


@pytest.mark.parametrize("case", _cases())
def test_delta_spark_reads_what_we_changed(case: DmlCase, changed: Changed, delta_spark: DeltaSpark) -> None:
    table = changed(case)
    assert rows_of(delta_spark.read(table.path).rows) == rows_of(table.rows)


@pytest.mark.parametrize("case", _cases(lambda case: case.has_feed))
def test_delta_spark_tells_the_changes_that_we_made(
    case: DmlCase, changed: Changed, ours: SparkSession, delta_spark: DeltaSpark
) -> None:
    path = changed(case).path
    assert _their_feed(delta_spark, path) == _feed(ours, path)


@pytest.mark.parametrize("case", _cases(lambda case: case.has_row_ids))
def test_delta_spark_finds_the_row_ids_that_we_kept(
    case: DmlCase, changed: Changed, ours: SparkSession, delta_spark: DeltaSpark
) -> None:
    path = changed(case).path
    assert _their_row_ids(delta_spark, path) == _row_ids(ours, path)


# Others here have the same and more, and delta-spark changes clustered tables of ours among its other tables.
_CHANGED_ELSEWHERE = (
    *("plain", "columnMapping id", "rowTracking", "clustering", "change feed of partitions"),
    "deletion vectors in a change feed",
)


@pytest.mark.parametrize("case", _cases(variations=_CHANGED_ELSEWHERE))
def test_delta_spark_changes_our_rows_after_us_and_we_after_it(
    case: DmlCase, changed: Changed, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = str(shutil.copytree(changed(case).path, tmp_path / "table"))
    for change in case.plan.second:
        delta_spark.run(change.sql(path))
    _all_alike(case, ours, delta_spark, path)
    for statement in case.upkeep:
        delta_spark.run(statement.replace("{t}", f"delta.`{path}`"))
    _run(ours, path, case.plan.third)
    _all_alike(case, ours, delta_spark, path)
    assert len(actions(commits_of(path), "protocol")) == 1
    if case.feature.check is not None:
        case.feature.check(_whole_files(commits_of(path)))


_FEWER_AT_ONCE = ("plain", "changeDataFeed", "deletionVectors", "deletion vectors in a change feed", "rowTracking")
_BY_TURNS = (
    *_FEWER_AT_ONCE,
    "deletion vectors in a change feed of mapped, tracked, partitioned rows",
)


@pytest.mark.parametrize("case", _cases(lambda case: case.name in _BY_TURNS, variations=_FEWER_AT_ONCE))
def test_we_change_the_rows_of_delta_spark_after_it_and_it_after_us(
    case: DmlCase, changed: Changed, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    delta_spark.run(case.feature.create_theirs_sql(path))
    delta_spark.write(case.feature.batches[0].query, path)
    assert case.plan.rows is not None
    delta_spark.write(case.plan.rows, path)
    for change in case.plan.first:
        delta_spark.run(change.sql(path))
    feature = case.feature
    assert rows_of(_read(ours, path), feature.varies) == expected_rows(feature.column_names, case.plan.holds)
    if case.has_feed:
        both = [rows_of(_feed_table(ours, table), ["_commit_timestamp"]) for table in (path, changed(case).path)]
        assert both[0] == both[1]
    _all_alike(case, ours, delta_spark, path)
    _run(ours, path, case.plan.second)
    _all_alike(case, ours, delta_spark, path)
    for change in case.plan.third:
        delta_spark.run(change.sql(path))
    _all_alike(case, ours, delta_spark, path)


@pytest.mark.parametrize("first", ["ours", pytest.param("theirs", marks=pytest.mark.long)])
def test_deletion_vectors_are_united_by_turns(
    first: str, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    delta_spark.run(
        f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    delta_spark.write("SELECT id FROM range(0, 20, 1, 1)", path)
    for number in range(4):
        delete = Delete(f"id IN ({number}, {19 - number})")
        if (number % 2 == 0) is (first == "ours"):
            delete.run(ours, path)
        else:
            delta_spark.run(delete.sql(path))
        delta_spark.forget()
        adds = actions(commits_of(path), "add")
        assert len({add["path"] for add in adds}) == 1
        assert adds[-1]["deletionVector"]["cardinality"] == 2 * (number + 1)
        expected = expected_rows(["id"], [[i] for i in range(number + 1, 19 - number)])
        assert rows_of(_read(ours, path)) == expected
        assert rows_of(delta_spark.read(path).rows) == expected
        for peer in ("datafusion", "duckdb", "polars"):
            assert why_absent(peer) is not None or rows_of(PEERS[peer](path)) == expected, peer


def _run(spark: SparkSession, path: str, changes: Sequence[Change]) -> None:
    for change in changes:
        change.run(spark, path)


def _all_alike(case: DmlCase, ours: SparkSession, delta_spark: DeltaSpark, path: str) -> None:
    """We and delta-spark agree on the rows, on their changes and on their ids."""
    assert rows_of(_read(ours, path)) == rows_of(delta_spark.read(path).rows)
    if case.has_feed:
        assert _feed(ours, path) == _their_feed(delta_spark, path)
    if case.has_row_ids:
        assert _row_ids(ours, path) == _their_row_ids(delta_spark, path)


def _whole_files(commits: Any) -> Any:
    """The commits without the files that are added again because a deletion vector of theirs changed."""
    seen: set[str] = set()
    kept = []
    for commit in commits:
        kept.append([a for a in commit if not (a.get("add") and a["add"]["path"] in seen)])
        seen |= {a["add"]["path"] for a in commit if a.get("add")}
    return kept


def _read(spark: SparkSession, path: str, **options: str) -> pa.Table:
    return spark.read.format("delta").options(**options).load(path).toArrow()


def _feed_table(spark: SparkSession, path: str) -> pa.Table:
    return _read(spark, path, **_FEED)


def _feed(spark: SparkSession, path: str) -> Rows:
    return rows_of(_feed_table(spark, path))


def _their_feed(delta_spark: DeltaSpark, path: str) -> Rows:
    return rows_of(delta_spark.read(path, **_FEED).rows)


def _feed_of_deltalake(path: str, columns: Sequence[str]) -> pa.Table:
    """The change feed in the order of `columns`: deltalake's has partition columns last."""
    import deltalake

    return pa.table(deltalake.DeltaTable(path).load_cdf(starting_version=0)).select(columns)


def _row_ids(spark: SparkSession, path: str) -> Rows:
    table = _read(spark, path, rowTracking="true")
    names = {"_row_id": "row_id", "_row_commit_version": "row_commit_version"}
    return rows_of(table.rename_columns([names.get(name, name) for name in table.column_names]))


def _their_row_ids(delta_spark: DeltaSpark, path: str) -> Rows:
    tracked = "_metadata.row_id, _metadata.row_commit_version"
    return rows_of(delta_spark.sql(f"SELECT *, {tracked} FROM delta.`{path}`").rows)

"""Identity columns: unique values on the grid, beyond the high-water mark, whoever writes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, IdentityGenerator, Snapshot, errors
from slackwater.spark.write import write_command as write
from tests.spark.committed import append, column_metadata, names_below, operation, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]

LARGEST = 2**63 - 1


def create(
    spark: SparkSession, path: str, start: int = 1, step: int = 1, by_default: bool = False, **properties: str
) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumn("name", "STRING").addColumn("part", "INT")
    generator = IdentityGenerator(start, step)
    if by_default:
        builder.addColumn("id", "BIGINT", generatedByDefaultAs=generator)
    else:
        builder.addColumn("id", "BIGINT", generatedAlwaysAs=generator)
    for key, value in properties.items():
        builder.property(key, value)
    return builder.execute()


def ids(spark: SparkSession, path: str, where: str = "true") -> list[int]:
    return sorted(row["id"] for row in read(spark, path).where(where).select("id").collect())


def mark(path: str) -> int | None:
    found: int | None = column_metadata(path, "id").get("delta.identity.highWaterMark")
    return found


@pytest.mark.parametrize(("start", "step"), [(1, 1), (10, 7), (-5, -3)])
def test_values_are_unique_on_the_grid_and_beyond_the_mark(
    spark: SparkSession, path: str, start: int, step: int
) -> None:
    create(spark, path, start, step)
    assert mark(path) is None
    seen: set[int] = set()
    for part, count in enumerate((7, 1, 12)):
        frame = spark.range(0, count, 1, numPartitions=3).selectExpr("concat('n', id) as name", f"{part} as part")
        before = mark(path)
        frame.write.format("delta").mode("append").save(path)
        new = ids(spark, path, f"part = {part}")
        assert len(set(new)) == count
        assert not seen & set(new)
        assert all((value - start) % step == 0 for value in new)
        beyond = start if before is None else before + step
        assert all((value - beyond) * step >= 0 for value in new)
        assert mark(path) == (max(new) if step > 0 else min(new))
        seen |= set(new)


def test_as_few_files_as_the_user_asked_for_are_written(spark: SparkSession, path: str) -> None:
    create(spark, path)
    spark.range(0, 9, 1, numPartitions=3).selectExpr("'a' as name", "1 as part").coalesce(1).write.format("delta").mode(
        "append"
    ).save(path)
    assert Snapshot.load(path).files().num_rows == 1
    assert ids(spark, path) == [1, 3, 5, 7, 9, 11, 13, 15, 17]


def test_the_columns_settings_are_in_its_metadata(spark: SparkSession, path: str) -> None:
    create(spark, path, 3, -2, by_default=True)
    assert column_metadata(path, "id") == {
        "delta.identity.start": 3,
        "delta.identity.step": -2,
        "delta.identity.allowExplicitInsert": True,
    }
    assert Snapshot.load(path).protocol.min_writer_version == 7
    assert "identityColumns" in (Snapshot.load(path).protocol.writer_features or ())


def test_always_generated_means_that_no_row_brings_a_value(spark: SparkSession, path: str) -> None:
    create(spark, path)
    before = names_below(path)
    with pytest.raises(errors.InvalidArgument, match="identity column id is GENERATED ALWAYS"):
        append(spark, path, [("a", 1, 5)], "name STRING, part INT, ID BIGINT")
    assert names_below(path) == before


def test_values_that_rows_bring_do_not_move_the_mark(spark: SparkSession, path: str) -> None:
    create(spark, path, by_default=True)
    append(spark, path, [("a", 1)], "name STRING, part INT")
    append(spark, path, [("b", 1, 100), ("c", 1, 1)], "name STRING, part INT, id BIGINT")
    assert mark(path) == 1
    append(spark, path, [("d", 1)], "name STRING, part INT")
    assert ids(spark, path) == [1, 1, 2, 100]
    assert mark(path) == 2


# With two shuffle partitions every other value is left to a partition that may not be there.
@pytest.mark.parametrize(("start", "step", "last"), [(LARGEST - 2, 1, LARGEST), (-LARGEST + 3, -2, -LARGEST - 1)])
def test_values_that_do_not_fit_into_a_long_fail_the_write(
    spark: SparkSession, path: str, start: int, step: int, last: int
) -> None:
    create(spark, path, start, step)
    before = names_below(path)
    with pytest.raises(errors.InvariantViolationException, match="identity column id: its values are used up"):
        append(spark, path, [("a", 1)] * 9, "name STRING, part INT")
    assert names_below(path) == before
    append(spark, path, [("a", 1), ("b", 1)], "name STRING, part INT")
    assert ids(spark, path) == sorted([start, last])
    before = names_below(path)
    with pytest.raises(errors.InvariantViolationException, match="used up"):
        append(spark, path, [("a", 1)], "name STRING, part INT")
    assert names_below(path) == before


def test_two_threads_that_append_at_once_give_no_value_twice(spark: SparkSession, path: str) -> None:
    create(spark, path)
    start = threading.Barrier(2)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            start.wait(timeout=60)
            for number in range(2):
                append(spark, path, [(name, number)] * 3, "name STRING, part INT")
        except BaseException as error:  # noqa: BLE001  (shown by the assertion below)
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("x", "y")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not failures
    assert Snapshot.load(path).version == 4
    found = ids(spark, path)
    assert len(found) == len(set(found)) == 12
    assert mark(path) == max(found)


def test_the_loser_of_a_race_writes_its_rows_again(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark, path)
    commit = write.commit_rows
    attempts = []

    def late(*args: Any) -> Any:
        attempts.append(1)
        if len(attempts) == 1:
            append(spark, path, [("other", 0)] * 2, "name STRING, part INT")
        return commit(*args)

    monkeypatch.setattr(write, "commit_rows", late)
    append(spark, path, [("mine", 0)] * 2, "name STRING, part INT")
    # The first attempt, the other writer's, and the one after.
    assert len(attempts) == 3
    found = read(spark, path).select("name", "id").collect()
    assert sorted(r["id"] for r in found) == sorted({r["id"] for r in found})
    others = [r["id"] for r in found if r["name"] == "other"]
    assert len(found) == 4
    assert all(r["id"] > max(others) for r in found if r["name"] == "mine")
    # The files of the attempt that lost are gone.
    parquet = [name for name in names_below(path) if name.endswith(".parquet") and "_delta_log" not in name]
    assert len(parquet) == Snapshot.load(path).files().num_rows


def test_an_append_with_values_of_its_own_goes_behind_a_generating_one(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(spark, path, by_default=True)
    commit = write.commit_rows

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        append(spark, path, [("other", 0)], "name STRING, part INT")
        return commit(*args)

    monkeypatch.setattr(write, "commit_rows", late)
    append(spark, path, [("mine", 0, 50)], "name STRING, part INT, id BIGINT")
    assert rows(spark, path) == [("mine", 0, 50), ("other", 0, 1)]
    assert mark(path) == 1


def test_overwriting_goes_on_behind_the_mark(spark: SparkSession, path: str) -> None:
    create(spark, path)
    append(spark, path, [("a", 1), ("b", 2)], "name STRING, part INT")
    used = ids(spark, path)
    frame = spark.createDataFrame([("c", 3)], "name STRING, part INT")
    frame.write.format("delta").mode("overwrite").save(path)
    assert ids(spark, path)[0] > max(used)
    assert len(ids(spark, path)) == 1
    assert rows(spark, path, versionAsOf=1)[0][0] == "a"


def test_rows_that_a_condition_spares_keep_their_values(spark: SparkSession, path: str) -> None:
    create(spark, path)
    append(spark, path, [("a", 1), ("b", 2), ("c", 2)], "name STRING, part INT")
    before = {row["name"]: row["id"] for row in read(spark, path).collect()}
    frame = spark.createDataFrame([("d", 2)], "name STRING, part INT")
    frame.write.format("delta").mode("overwrite").option("replaceWhere", "part = 2").save(path)
    after = {row["name"]: row["id"] for row in read(spark, path).collect()}
    assert set(after) == {"a", "d"}
    assert after["a"] == before["a"]
    assert after["d"] > max(before.values())


def test_values_are_found_by_the_physical_name_and_whatever_has_statistics(spark: SparkSession, path: str) -> None:
    properties: dict[str, Any] = {"delta.columnMapping.mode": "name", "delta.dataSkippingNumIndexedCols": "0"}
    table = create(spark, path, **properties)
    append(spark, path, [("a", 1)], "name STRING, part INT")
    assert mark(path) == ids(spark, path)[0]
    table.renameColumn("id", "key")
    append(spark, path, [("b", 1)], "name STRING, part INT")
    found = sorted(row["key"] for row in read(spark, path).collect())
    assert len(set(found)) == 2
    assert column_metadata(path, "key")["delta.identity.highWaterMark"] == max(found)


def test_a_write_without_rows_leaves_the_mark(spark: SparkSession, path: str) -> None:
    create(spark, path)
    append(spark, path, [], "name STRING, part INT")
    assert mark(path) is None
    append(spark, path, [("a", 1)], "name STRING, part INT")
    assert ids(spark, path) == [1]
    assert operation(path)[0] == "WRITE"


def test_an_identity_column_keeps_its_type_and_has_no_default(spark: SparkSession, path: str) -> None:
    supported: dict[str, Any] = {"delta.feature.allowColumnDefaults": "supported"}
    table = create(spark, path, **supported)
    with pytest.raises(errors.InvalidArgument, match="computes"):
        table.setColumnDefault("id", "1")
    with pytest.raises(errors.InvalidArgument, match="cannot be read"):
        table.changeColumnType("id", "INT")

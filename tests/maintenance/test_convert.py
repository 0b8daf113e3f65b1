"""A directory of Parquet files becomes a table: which files, which columns, and what is an error."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import (
    InvalidArgument,
    ProtocolChangedException,
    SlackwaterError,
    StorageError,
    UnsupportedFeature,
)
from slackwater.log.table import Table
from slackwater.maintenance.convert import ConvertRequest, ConvertResult, convert
from slackwater.maintenance.footer_scan import describe_files
from slackwater.protocol.schema.ddl_columns import parse_column_list
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import ObjectStore, open_store
from tests.transaction.tables import START_MS, FakeTime, StepStore, live, only

ROWS = pa.table({"id": pa.array([1, 2, None], pa.int64()), "v": ["a", "b", "c"]})


def _put(root: Path, path: str, rows: pa.Table = ROWS, **options: Any) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target, **options)
    os.utime(target, (START_MS / 1000,) * 2)


def _converted(root: Path, partitions: str | None = None, **more: Any) -> Snapshot:
    request = ConvertRequest(parse_column_list(partitions), **more) if partitions else ConvertRequest(**more)
    result = convert(Table.at(root), request, FakeTime().clock())
    assert result is not None
    return Snapshot.load(root)


def _refused(root: Path, kind: type[SlackwaterError], text: str, partitions: str | None = None, **more: Any) -> None:
    before = sorted(root.rglob("*"))
    with pytest.raises(kind, match=text):
        _converted(root, partitions, **more)
    assert sorted(root.rglob("*")) == before


def _values(snapshot: Snapshot) -> dict[str, dict[str, str | None]]:
    files = snapshot.live_files(["path", "partitionValues"]).to_pylist()
    return {file["path"]: dict(file["partitionValues"]) for file in files}


def test_files_become_a_table_in_place(tmp_path: Path) -> None:
    _put(tmp_path, "a.parquet")
    _put(tmp_path, "sub/b")
    content = (tmp_path / "a.parquet").read_bytes()
    snapshot = _converted(tmp_path)
    assert (snapshot.version, live(snapshot.store)) == (0, ["a.parquet", "sub/b"])
    assert str(snapshot.schema) == "struct<id:long,v:string>"
    file = only_file(snapshot, "a.parquet")
    assert (file["size"], file["modificationTime"], file["dataChange"]) == (len(content), START_MS, True)
    assert orjson.loads(file["stats"]) == {
        "numRecords": 3,
        "minValues": {"id": 1, "v": "a"},
        "maxValues": {"id": 2, "v": "c"},
        "nullCount": {"id": 1, "v": 0},
        "tightBounds": True,
    }
    assert (tmp_path / "a.parquet").read_bytes() == content


def only_file(snapshot: Snapshot, path: str) -> dict[str, Any]:
    lines = snapshot.store.read("_delta_log/00000000000000000000.json").splitlines()
    (found,) = [node["add"] for node in map(orjson.loads, lines) if node.get("add", {}).get("path") == path]
    return dict(found)


def test_the_history_tells_of_it_as_delta_spark_does(tmp_path: Path) -> None:
    _put(tmp_path, "p=1/a")
    info = only(_converted(tmp_path, "p INT").store, 0, "commitInfo")
    assert (info["operation"], info["operationMetrics"]) == ("CONVERT", {"numConvertedFiles": "1"})
    assert info["operationParameters"] == {
        "numFiles": "1",
        "partitionedBy": '["p"]',
        "collectStats": "true",
        "sourceFormat": "parquet",
    }


def test_statistics_may_be_left_out(tmp_path: Path) -> None:
    _put(tmp_path, "a")
    assert "stats" not in only_file(_converted(tmp_path, collect_stats=False), "a")


def test_a_table_that_is_one_already_is_left_alone(tmp_path: Path) -> None:
    _put(tmp_path, "a")
    assert _converted(tmp_path).version == 0
    _put(tmp_path, "b")
    assert convert(Table.at(tmp_path)) is None
    assert Snapshot.load(tmp_path).version == 0


def test_hidden_files_do_not_count(tmp_path: Path) -> None:
    _put(tmp_path, "a.parquet")
    for hidden in ("_SUCCESS", ".a.parquet.crc", "_temporary/0/x", ".hive-staging/x", "_metadata", "sub/_x/y"):
        (tmp_path / hidden).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / hidden).write_bytes(b"no Parquet")
    (tmp_path / "marker").write_bytes(b"")
    assert live(_converted(tmp_path).store) == ["a.parquet"]


def test_partitions_may_have_names_that_look_hidden(tmp_path: Path) -> None:
    _put(tmp_path, "_p=1/.q=x/a")
    assert _values(_converted(tmp_path, "_p INT, `.q` STRING")) == {"_p=1/.q=x/a": {"_p": "1", ".q": "x"}}


@pytest.mark.parametrize(
    ("directory", "column", "value"),
    [
        ("p=a%3Ab%2Fc", "p STRING", "a:b/c"),
        ("p=100%", "p STRING", "100%"),
        ("p=__HIVE_DEFAULT_PARTITION__", "p INT", None),
        ("p=__HIVE_DEFAULT_PARTITION__", "p STRING", None),
        ("p=007", "p STRING", "007"),
        ("p=007", "p INT", "7"),
        ("p=-3", "p TINYINT", "-3"),
        ("p=2026-11-22", "p DATE", "2026-11-22"),
        ("p=2026-11-22 10%3A00%3A00", "p TIMESTAMP", "2026-11-22T01:00:00.000000Z"),
        ("p=2026-11-22 10%3A00%3A00.5", "p TIMESTAMP_NTZ", "2026-11-22 10:00:00.500000"),
        ("p=1.5", "p DECIMAL(5,2)", "1.50"),
        ("p=TRUE", "p BOOLEAN", "true"),
        ("p=1e3", "p DOUBLE", "1000.0"),
        ("a%20b%3D=1", "`a b=` STRING", "1"),
    ],
)
def test_values_come_from_directories(tmp_path: Path, directory: str, column: str, value: str | None) -> None:
    _put(tmp_path, f"{directory}/f")
    if "`" in column:
        _refused(tmp_path, InvalidArgument, "has ' ', '=' in its name", column)
        return
    found = _values(_converted(tmp_path, column, zone="Asia/Tokyo"))
    ((path, values),) = found.items()
    assert values["p"] == value
    assert path.replace("%25", "%").replace("%20", " ") == f"{directory}/f"


@pytest.mark.parametrize(
    ("paths", "partitions", "text"),
    [
        (["p=1/a"], None, r"'p=1' names partition columns \['p'\], .* has \[\]\. .*'p STRING'"),
        (["p=1/a", "b"], "p INT", r"'\.' names no partition column"),
        (["p=1/a"], "q INT", r"'p=1' names partition columns \['p'\], .* has \['q'\]"),
        (["p=1/q=2/a"], "q INT, p INT", r"names partition columns \['p', 'q'\]"),
        (["p=1/a"], "p INT, q INT", r"has \['p', 'q'\]"),
        (["P=1/a"], "p INT", r"names partition columns \['P'\]"),
        (["p=x/a"], "p INT", "'x', which is not a value of p of type integer"),
        (["p=300/a"], "p TINYINT", "'300', which is not a value of p"),
        (["p=/a"], "p STRING", "names no value of p"),
        (["p=1/sub/a"], "p INT", "some directories in between name none"),
        (["p=__HIVE_DEFAULT_PARTITION__/a"], "p INT NOT NULL", "p is NOT NULL"),
        (["a"], "p INT", r"'\.' names no partition column"),
        (["_p=1/a"], None, r"names partition columns \['_p'\]"),
    ],
)
def test_other_partitions_than_asked_for_are_errors(
    tmp_path: Path, paths: list[str], partitions: str | None, text: str
) -> None:
    for path in paths:
        _put(tmp_path, path)
    _refused(tmp_path, InvalidArgument, text, partitions)


def test_a_column_that_directories_name_may_be_in_the_files_too(tmp_path: Path) -> None:
    _put(tmp_path, "v=7/a")
    snapshot = _converted(tmp_path, "v INT")
    assert str(snapshot.schema) == "struct<id:long,v:integer>"
    assert orjson.loads(only_file(snapshot, "v=7/a")["stats"])["nullCount"] == {"id": 1}


def test_columns_of_all_files_become_columns_of_the_table(tmp_path: Path) -> None:
    _put(tmp_path, "a", pa.table({"x": pa.array([1], pa.int8()), "s": [{"m": 1}]}))
    _put(tmp_path, "b", pa.table({"y": [True], "x": pa.array([2], pa.int32()), "s": [{"n": "t"}]}))
    snapshot = _converted(tmp_path)
    assert str(snapshot.schema) == "struct<x:integer,s:struct<m:long,n:string>,y:boolean>"
    assert all(column.nullable for column in snapshot.schema)
    stats = orjson.loads(only_file(snapshot, "a")["stats"])
    assert stats["nullCount"] == {"x": 0, "s": {"m": 0, "n": 1}, "y": 1}


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (pa.table({"id": ["1"]}), "the files a and c do not fit one table: column id is of type long .* string"),
        (pa.table({"id": pa.array([1], pa.int32())}), "column id is of type long in one schema and of type integer"),
        (pa.table({"ID": [1]}), "column id is called ID in the other"),
        (pa.table({"n": [{"x": [2.5]}]}), r"the files b and c do .*: column n\.x\.element is of type long"),
        (pa.table({"n": [1]}), "the files b and c do .*: column n is of type struct"),
    ],
)
def test_two_schemas_that_do_not_fit_name_both_files(tmp_path: Path, other: pa.Table, text: str) -> None:
    _put(tmp_path, "a")
    _put(tmp_path, "b", pa.table({"n": [{"x": [2]}]}))
    _put(tmp_path, "c", other)
    _refused(tmp_path, InvalidArgument, text)


@pytest.mark.parametrize("name", ["a b", "a,b", "a=b", "a;b", "a(b"])
def test_names_that_a_table_cannot_have_are_refused(tmp_path: Path, name: str) -> None:
    _put(tmp_path, "a", pa.table({"s": [{name: 1}]}))
    _refused(tmp_path, InvalidArgument, "in its name.*Rename the column with Spark")


def test_names_that_differ_in_case_alone_are_refused(tmp_path: Path) -> None:
    _put(tmp_path, "a", pa.table({"x": [1], "X": [1]}))
    _refused(tmp_path, InvalidArgument, "differ in more than case")


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    _put(tmp_path, "a")
    (tmp_path / "notes.txt").write_text("hello")
    _refused(tmp_path, InvalidArgument, "notes.txt is not a Parquet file")


def test_a_place_without_files_is_no_table(tmp_path: Path) -> None:
    _refused(tmp_path, InvalidArgument, "there is no Parquet file")
    with pytest.raises(InvalidArgument, match="there is no Parquet file"):
        convert(Table.at(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()
    _put(tmp_path, "a")
    with pytest.raises((InvalidArgument, StorageError)):
        convert(Table.at(tmp_path / "a"))
    _put(tmp_path, "empty/a", pa.table({}))
    with pytest.raises(InvalidArgument, match="have no columns"):
        convert(Table.at(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sub/_delta_log/0.json", "sub is a Delta table"),
        ("_spark_metadata/0", "it was written by a stream"),
        ("sub/.hoodie/x", "sub is a Hudi table"),
    ],
)
def test_what_another_log_counts_is_refused(tmp_path: Path, path: str, text: str) -> None:
    _put(tmp_path, "a")
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(b"{}")
    _refused(tmp_path, UnsupportedFeature, text)


def test_a_link_to_a_directory_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "t"
    _put(root, "a")
    _put(tmp_path, "elsewhere/b")
    (root / "_hidden").symlink_to(tmp_path / "elsewhere")
    assert live(_converted(root).store) == ["a"]
    _put(tmp_path, "u/a")
    (tmp_path / "u" / "sub").symlink_to(tmp_path / "elsewhere")
    _refused(tmp_path / "u", UnsupportedFeature, "is a link to a directory")


@pytest.mark.parametrize(
    "properties", [{"delta.columnMapping.mode": "name"}, {"delta.enableIcebergCompatV2": "true"}], ids=str
)
def test_column_mapping_would_find_no_column(tmp_path: Path, properties: dict[str, str]) -> None:
    _put(tmp_path, "a")
    _refused(tmp_path, UnsupportedFeature, "with column mapping", properties=properties)


def test_properties_are_the_tables(tmp_path: Path) -> None:
    _put(tmp_path, "a")
    snapshot = _converted(tmp_path, properties={"delta.dataSkippingNumIndexedCols": "1", "delta.appendOnly": "true"})
    assert snapshot.properties.flag("delta.appendOnly")
    assert orjson.loads(only_file(snapshot, "a")["stats"])["nullCount"] == {"id": 1}


def _stepping(store: ObjectStore, step: Any) -> Table:
    return Table(StepStore(store, step))


def test_of_two_who_convert_one_wins(tmp_path: Path) -> None:
    _put(tmp_path, "a")
    steps: list[object] = []

    def first(operation: str, path: str) -> None:
        if path.endswith("0.json") and not steps:
            steps.append(convert(Table.at(tmp_path)))

    with pytest.raises(ProtocolChangedException):
        convert(_stepping(open_store(tmp_path), first))
    assert steps == [ConvertResult(1, (tmp_path / "a").stat().st_size)]
    assert (Snapshot.load(tmp_path).version, live(open_store(tmp_path))) == (0, ["a"])


def test_nothing_is_left_where_it_died_before_the_commit(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def die(operation: str, path: str) -> None:
        if operation == "put_if_absent":
            raise Killed

    _put(tmp_path, "a")
    with pytest.raises(Killed):
        convert(_stepping(open_store(tmp_path), die))
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


def test_a_file_that_goes_meanwhile_is_named(tmp_path: Path) -> None:
    _put(tmp_path, "a")

    def vanishing(store: ObjectStore, paths: Any, leaves: Any) -> Any:
        store.delete(["a"])
        return describe_files(store, paths, leaves)

    with pytest.raises(InvalidArgument, match="a disappeared during the conversion"):
        convert(Table.at(tmp_path), ConvertRequest(describe=vanishing))


def test_footers_are_read_twice_only_for_columns_that_the_first_file_lacks(tmp_path: Path) -> None:
    reads: list[int] = []

    def counting(store: ObjectStore, paths: Any, leaves: Any) -> Any:
        reads.append(len(paths))
        return describe_files(store, paths, leaves)

    for number in range(3):
        _put(tmp_path, f"alike/{number}")
    convert(Table.at(tmp_path / "alike"), ConvertRequest(describe=counting))
    _put(tmp_path, "other/a")
    _put(tmp_path, "other/b", pa.table({"new": [1]}))
    convert(Table.at(tmp_path / "other"), ConvertRequest(describe=counting))
    assert reads == [1, 3, 1, 2, 2]


def test_files_in_an_object_store_become_a_table() -> None:
    store = open_store(f"memory://{uuid.uuid4()}")
    sink = pa.BufferOutputStream()
    pq.write_table(ROWS, sink)
    store.put("p=a%3Ab/x", sink.getvalue().to_pybytes())
    assert convert(Table(store), ConvertRequest(parse_column_list("p STRING"))) is not None
    assert _values(Snapshot.open(store)) == {"p=a%253Ab/x": {"p": "a:b"}}


# Variants.


def _put_variants(root: Path, *values: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    rows = " UNION ALL ".join(f"SELECT {number} AS id, {value} AS v" for number, value in enumerate(values))
    duckdb.sql(f"COPY ({rows}) TO '{root}/f.parquet'")


def test_variants_of_duckdb_become_variants(tmp_path: Path) -> None:
    _put_variants(tmp_path, "'x'::VARIANT", "{'a': 1, 'b': [1, 2.5]}::VARIANT", "[]::VARIANT")
    table = _converted(tmp_path)
    assert [(column.name, str(column.type)) for column in table.schema] == [("id", "integer"), ("v", "variant")]
    found = table.to_arrow(variant_format="json").to_pylist()
    assert [orjson.loads(row["v"]) for row in found] == ["x", {"a": 1, "b": [1, 2.5]}, []]
    (file,) = table.live_files(["stats"]).to_pylist()
    assert orjson.loads(file["stats"])["nullCount"]["id"] == 0


def test_shredded_variants_need_the_feature_of_shredding(tmp_path: Path) -> None:
    """Source: delta-protocol.md "Variant Shredding"."""
    _put_variants(tmp_path / "shredded", "'x'::VARIANT")
    shredded = _converted(tmp_path / "shredded")
    assert pq.read_metadata(tmp_path / "shredded/f.parquet").schema.column(3).path == "v.typed_value"
    assert {"variantType", "variantShredding"} <= set(shredded.protocol.reader_features or ())
    assert "delta.enableVariantShredding" not in shredded.properties

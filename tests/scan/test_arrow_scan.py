"""Rows of a version without Spark: columns, partition values, vectors, names, limits, frames of other libraries."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from slackwater import AddFile, Snapshot, Transaction
from slackwater.data_files import reader as reading
from slackwater.errors import CorruptTable, DataFileNotFound, InvalidArgument
from slackwater.protocol.actions import z85
from slackwater.protocol.actions.deletion_vectors import INLINE, DeletionVectorDescriptor, serialize_bitmap, write_file
from slackwater.protocol.actions.partition_values import serialize_partition_value
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    DataType,
    DecimalType,
    StructField,
    StructType,
    schema_to_json,
)
from slackwater.scan import arrow_scan as scan_rows
from slackwater.storage.open import open_store


def _table(
    root: Path,
    fields: Sequence[StructField],
    files: Sequence[pa.Table],
    partitions: Sequence[dict[str, str | None]] | None = None,
    partition_by: Sequence[str] = (),
    **told: Any,
) -> Snapshot:
    """A table with these files, in this order."""
    Transaction.create(root, StructType(tuple(fields)), partition_by, **told).commit("CREATE TABLE")
    tx = Transaction(root)
    for at, rows in enumerate(files):
        path = root / f"part-{at}.parquet"
        pq.write_table(rows, path, row_group_size=4)
        values = partitions[at] if partitions else {}
        tx.add(AddFile(path.name, values, path.stat().st_size, at, stats=f'{{"numRecords":{rows.num_rows}}}'))
    if files:
        tx.commit("WRITE")
    return Snapshot.load(root)


@pytest.fixture
def numbers(tmp_path: Path) -> Snapshot:
    """Three files with the numbers 0 to 29 and a text of each, row groups of four rows."""
    files = [pa.table({"n": range(at, at + 10), "t": [f"t{n}" for n in range(at, at + 10)]}) for at in (0, 10, 20)]
    return _table(tmp_path / "numbers", [StructField("n", LONG), StructField("t", STRING)], files)


def test_rows_come_in_the_order_of_the_files(numbers: Snapshot) -> None:
    order = [int(path.split("-")[1].split(".")[0]) for path in numbers.files()["path"].to_pylist()]
    expected = [n for at in order for n in range(10 * at, 10 * at + 10)]
    for _ in range(3):
        assert numbers.to_arrow()["n"].to_pylist() == expected


def test_columns_come_as_they_are_asked_for_in_any_case(numbers: Snapshot) -> None:
    rows = numbers.to_arrow(["T", "n"], where="N = 12")
    assert rows.to_pydict() == {"t": ["t12"], "n": [12]}
    assert numbers.to_arrow([], where="n >= 25").num_rows == 5
    assert numbers.to_arrow([]).num_rows == 30


def test_a_condition_may_be_on_columns_that_are_not_asked_for(numbers: Snapshot) -> None:
    rows = numbers.to_arrow(["t"], where="n IN (3, 17)")
    assert rows.column_names == ["t"]
    assert sorted(rows["t"].to_pylist()) == ["t17", "t3"]


def _fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the row groups that are fetched from here on."""
    read: list[int] = []
    found = reading._OpenFile.fetch

    def noted(self: reading._OpenFile, number: int) -> Any:
        read.append(number)
        return found(self, number)

    monkeypatch.setattr(reading._OpenFile, "fetch", noted)
    return read


def test_of_a_file_whose_footer_rules_it_out_no_pages_are_read(
    numbers: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = _fetched(monkeypatch)
    assert numbers.to_arrow(where="n = 17")["t"].to_pylist() == ["t17"]
    assert read == [1]


_EVERY_TYPE: list[tuple[DataType, Any]] = [
    (STRING, "a 'b'/ü"),
    (LONG, -(2**63)),
    (INTEGER, 7),
    (SHORT, -7),
    (BYTE, 127),
    (FLOAT, 0.5),
    (DOUBLE, -1e300),
    (BOOLEAN, False),
    (BINARY, b"\x00\xff"),
    (DATE, dt.date(2026, 2, 28)),
    (TIMESTAMP, dt.datetime(2026, 2, 28, 1, 2, 3, 4, tzinfo=dt.timezone.utc)),
    (TIMESTAMP_NTZ, dt.datetime(2026, 2, 28, 1, 2, 3, 4)),
    (DecimalType(38, 2), Decimal("-123456789012345678901234567890123456.78")),
]


def _literal(data_type: DataType, value: Any) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, float):
        return f"{value!r}e0" if "e" not in repr(value) else repr(value)
    kinds: dict[DataType, str] = {DATE: "DATE ", TIMESTAMP: "TIMESTAMP ", TIMESTAMP_NTZ: "TIMESTAMP_NTZ "}
    kind = kinds.get(data_type, "")
    return f"{kind}'{str(value).replace(chr(39), chr(92) + chr(39))}'"


@pytest.mark.parametrize(("data_type", "value"), _EVERY_TYPE, ids=[str(kind) for kind, _ in _EVERY_TYPE])
def test_partition_values_of_every_type_are_rows_and_conditions(
    data_type: DataType, value: Any, tmp_path: Path
) -> None:
    texts: list[dict[str, str | None]] = [{"p": serialize_partition_value(value, data_type)}, {"p": None}]
    files = [pa.table({"n": [1, 2]}), pa.table({"n": [3]})]
    fields = [StructField("p", data_type), StructField("n", LONG)]
    snapshot = _table(tmp_path / "t", fields, files, texts, ["p"])
    rows = snapshot.to_arrow()
    assert rows.schema.field("p").type == to_arrow_type(data_type)
    assert sorted(rows.to_pylist(), key=lambda row: row["n"]) == [
        {"p": value, "n": 1},
        {"p": value, "n": 2},
        {"p": None, "n": 3},
    ]
    literal = _literal(data_type, value)
    assert snapshot.to_arrow(["n"], where=f"p = {literal}")["n"].to_pylist() == [1, 2]
    assert snapshot.to_arrow(["n"], where=f"p = {literal} AND n > 1")["n"].to_pylist() == [2]
    assert snapshot.to_arrow(["n"], where=f"NOT (p = {literal})")["n"].to_pylist() == []
    assert snapshot.to_arrow(["p"], where="n = 3")["p"].to_pylist() == [None]


def test_times_without_a_zone_are_in_the_zone_that_is_told(tmp_path: Path) -> None:
    fields = [StructField("p", TIMESTAMP), StructField("n", LONG)]
    snapshot = _table(tmp_path / "t", fields, [pa.table({"n": [1]})], [{"p": "2026-07-01 12:00:00"}], ["p"])
    assert snapshot.to_arrow()["p"][0].as_py().hour == 12
    assert snapshot.to_arrow(zone="Europe/Berlin")["p"][0].as_py().hour == 10
    asked = "p = TIMESTAMP '2026-07-01 12:00:00'"
    assert snapshot.to_arrow(where=asked, zone="Europe/Berlin").num_rows == 1


def test_deleted_rows_are_left_out_before_a_condition_is_asked(tmp_path: Path) -> None:
    root = tmp_path / "t"
    properties = {"delta.enableDeletionVectors": "true"}
    _table(root, [StructField("n", LONG)], [], properties=properties)
    path = root / "part-0.parquet"
    pq.write_table(pa.table({"n": range(10)}), path, row_group_size=4)
    bitmap = serialize_bitmap(BitMap64([0, 4, 9]))
    vector = DeletionVectorDescriptor(INLINE, z85.encode(bitmap), None, len(bitmap), 3)
    tx = Transaction(root)
    stats = '{"numRecords":10,"tightBounds":false}'
    tx.add(AddFile(path.name, {}, path.stat().st_size, 0, stats=stats, deletion_vector=vector))
    tx.commit("WRITE")
    snapshot = Snapshot.load(root)
    assert snapshot.to_arrow()["n"].to_pylist() == [1, 2, 3, 5, 6, 7, 8]
    assert snapshot.to_arrow(where="n >= 4")["n"].to_pylist() == [5, 6, 7, 8]
    assert snapshot.to_arrow([], where="n IN (4, 5)").num_rows == 1


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_are_found_by_what_files_call_them_at_every_depth(mode: str, tmp_path: Path) -> None:
    def field(name: str, kind: DataType, number: int) -> StructField:
        told = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        return StructField(name, kind, metadata=told)

    # As after a rename: the name that one column has now, another one has in the files.
    inner = StructType((field("x.y", LONG, 2), field("col-2", STRING, 3)))
    fields = [field("col-4", inner, 1), field("p q", STRING, 4), field("part", INTEGER, 5)]
    numbered = {n: {b"PARQUET:field_id": str(n).encode()} for n in (1, 2, 3, 4)}
    kind = pa.struct(
        [pa.field("col-3", pa.string(), metadata=numbered[3]), pa.field("col-2", pa.int32(), metadata=numbered[2])]
    )
    schema = pa.schema(
        [pa.field("col-1", kind, metadata=numbered[1]), pa.field("col-4", pa.string(), metadata=numbered[4])]
    )
    rows = pa.table({"col-1": [{"col-2": 1, "col-3": "a"}, None], "col-4": ["u", "v"]}, schema=schema)
    root = tmp_path / "t"
    (root / "_delta_log").mkdir(parents=True)
    pq.write_table(rows, root / "part-0.parquet")
    add = AddFile("part-0.parquet", {"col-5": "3"}, (root / "part-0.parquet").stat().st_size, 0)
    actions = [
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema_to_json(StructType(tuple(fields))),
                "partitionColumns": ["part"],
                "configuration": {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "5"},
            }
        },
        add.to_json(),
    ]
    commit = root / "_delta_log" / f"{0:020}.json"
    commit.write_text("\n".join(json.dumps(action) for action in actions))
    snapshot = Snapshot.load(root)
    expected = [
        {"col-4": {"x.y": 1, "col-2": "a"}, "p q": "u", "part": 3},
        {"col-4": None, "p q": "v", "part": 3},
    ]
    assert snapshot.to_arrow().to_pylist() == expected
    assert snapshot.to_arrow().schema.field("p q").metadata is None
    assert snapshot.to_arrow(where="`col-4`.`x.y` = 1 AND part = 3").to_pylist() == expected[:1]
    assert snapshot.to_arrow(["p q"], where="`col-4`.`x.y` IS NULL").to_pylist() == [{"p q": "v"}]


def test_an_empty_table_has_columns_and_no_rows(tmp_path: Path) -> None:
    snapshot = _table(tmp_path / "t", [StructField("n", LONG), StructField("nothing", VOID)], [])
    rows = snapshot.to_arrow()
    assert (rows.num_rows, rows.column_names) == (0, ["n", "nothing"])
    assert snapshot.to_batches(where="n = 1").read_all().num_rows == 0


def test_columns_that_files_lack_and_void_ones_are_null(tmp_path: Path) -> None:
    fields = [StructField("n", LONG), StructField("new", STRING), StructField("nothing", VOID)]
    snapshot = _table(tmp_path / "t", fields, [pa.table({"n": pa.array([1], pa.int32())})])
    assert snapshot.to_arrow().to_pylist() == [{"n": 1, "new": None, "nothing": None}]
    assert snapshot.to_arrow(["nothing"]).to_pylist() == [{"nothing": None}]


def test_a_limit_gives_the_first_rows_and_reads_no_further(numbers: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    found = reading._opened

    def noted(*told: Any) -> Any:
        opened.append(told[1].place)
        return found(*told)

    monkeypatch.setattr(reading, "_opened", noted)
    assert numbers.to_arrow(limit=6) == numbers.to_arrow().slice(0, 6).combine_chunks()
    opened.clear()
    numbers.to_arrow(limit=3)
    assert len(opened) == 1
    assert numbers.to_arrow(limit=0).num_rows == 0
    assert numbers.to_arrow(where="n > 4", limit=100).num_rows == 25


@pytest.mark.parametrize("limit", [-1, 1.5, True])
def test_a_limit_is_a_number_of_rows(numbers: Snapshot, limit: Any) -> None:
    with pytest.raises(InvalidArgument, match="a limit is a whole number from 0"):
        numbers.to_arrow(limit=limit)


def test_batches_are_read_as_they_are_asked_for(numbers: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_rows, "MOST_AHEAD_BYTES", 1)
    read = _fetched(monkeypatch)
    reader = numbers.to_batches()
    assert read == []
    assert reader.read_next_batch().num_rows == 4
    assert len(read) == 1
    assert reader.read_all().num_rows == 26


def test_a_reader_that_is_left_stops_its_threads(numbers: Snapshot) -> None:
    before = threading.active_count()
    reader = numbers.to_batches()
    reader.read_next_batch()
    del reader
    assert threading.active_count() == before


def test_what_is_wrong_with_a_file_is_raised_when_it_is_read(numbers: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "numbers" / "part-1.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + b"x" * 9)
    with pytest.raises(CorruptTable, match=r"part-1\.parquet"):
        numbers.to_batches().read_all()
    path.unlink()
    with pytest.raises(DataFileNotFound, match=r"version 1 names a data file that is gone: .*part-1\.parquet"):
        numbers.to_arrow()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"columns": ["m"]}, "no column m: the columns are "),
        ({"columns": ["n", "N"]}, "column n is requested twice"),
        ({"columns": "n"}, r"columns must be a list of names, found the text 'n'\. Write \['n'\]"),
        ({"where": "m = 1"}, "no column m: the columns are "),
        ({"columns": ["tt"]}, "no column tt: the columns are .*\\. Did you mean t\\?"),
        ({"where": "n ="}, "condition"),
        ({"where": "n % 2 = 0"}, "rows are not filtered by n % 2 = 0 without Spark"),
        ({"where": "n = 1 OR upper(t) = 'A'"}, "rows are not filtered by UPPER"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(numbers: Snapshot, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        numbers.to_batches(**asked)
    assert "\n" not in str(caught.value)


def test_other_libraries_get_the_rows_as_their_own(numbers: Snapshot) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    asked: dict[str, Any] = {"columns": ["n"], "where": "n BETWEEN 3 AND 5"}
    assert numbers.to_pandas(**asked)["n"].tolist() == [3, 4, 5]
    assert numbers.to_polars(**asked)["n"].to_list() == [3, 4, 5]
    relation = numbers.to_duckdb(**asked)
    assert relation.aggregate("sum(n)").fetchall() == [(12,)]
    assert relation.aggregate("sum(n)").fetchall() == [(12,)]
    with duckdb.connect() as connection:
        numbers.to_duckdb(**asked, connection=connection).create("kept")
        assert connection.execute("SELECT count(*) FROM kept").fetchall() == [(3,)]


@pytest.mark.parametrize("name", ["polars", "pandas", "duckdb"])
def test_a_library_that_is_not_there_is_named_with_the_line_that_installs_it(name: str, numbers: Snapshot) -> None:
    root = str(numbers._table.store.local_root)  # type: ignore[attr-defined]
    code = (
        "import sys, slackwater\n"
        "class Without:\n"
        "    def find_spec(self, name, *more):\n"
        f"        if name == {name!r}: raise ModuleNotFoundError('no ' + name, name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        f"try: slackwater.Snapshot.load({root!r}).to_{name}()\n"
        "except slackwater.errors.InvalidArgument as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == f"{name} is not installed: pip install {name}\n"


def test_rows_need_neither_spark_nor_another_library(numbers: Snapshot) -> None:
    root = str(numbers._table.store.local_root)  # type: ignore[attr-defined]
    code = (
        f"import sys, slackwater\nrows = slackwater.Snapshot.load({root!r}).to_arrow(where='n < 3')\n"
        "print(rows.num_rows, [m for m in ('pyspark', 'polars', 'duckdb') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "3 []\n"


def test_rows_of_a_remote_store_are_those_of_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_rows, "_FILES_AT_ONCE", 4)
    fields = [StructField("n", LONG), StructField("p", LONG)]
    files = [pa.table({"n": range(at, at + 10)}) for at in range(0, 60, 10)]
    root = tmp_path / "t"
    values: list[dict[str, str | None]] = [{"p": str(at)} for at in range(6)]
    _table(root, fields, files, values, ["p"], properties={"delta.enableDeletionVectors": "true"})
    tx = Transaction(root)
    for at in range(6):
        # Vectors in files of their own.
        data, [(offset, size)] = write_file([serialize_bitmap(BitMap64([at]))])
        path = root / f"deletion_vector_{uuid.UUID(int=at)}.bin"
        path.write_bytes(data)
        vector = DeletionVectorDescriptor("u", z85.encode_uuid(uuid.UUID(int=at)), offset, size, 1)
        told = '{"numRecords":10,"tightBounds":false}'
        size_bytes = (root / f"part-{at}.parquet").stat().st_size
        tx.remove(f"part-{at}.parquet")
        tx.add(AddFile(f"part-{at}.parquet", values[at], size_bytes, at, stats=told, deletion_vector=vector))
    tx.commit("DELETE")
    remote = f"memory://{uuid.uuid4().hex}/t"
    store = open_store(remote)
    for file in root.rglob("*"):
        if file.is_file():
            store.put_if_absent(str(file.relative_to(root)), file.read_bytes())
    here, there = Snapshot.load(root), Snapshot.load(remote)
    assert here.to_arrow().num_rows == 54
    for asked in ({}, {"where": "n > 25 AND p < 4"}, {"columns": ["p"], "where": "n = 31"}, {"limit": 7}):
        assert there.to_arrow(**asked) == here.to_arrow(**asked)
        assert there.to_batches(**asked).read_all().num_rows == here.to_arrow(**asked).num_rows

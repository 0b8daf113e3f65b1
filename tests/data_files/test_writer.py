"""Rows as files in a store: partitions, limits, types, footers."""

from __future__ import annotations

import datetime as dt
import errno
import itertools
import pickle
import tempfile
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.data_files import writer as writing
from slackwater.data_files.writer import (
    FileFormat,
    WrittenFile,
    files_batch,
    files_of,
    footer_source,
    options_of,
    write_rows,
)
from slackwater.errors import InvalidArgument, StorageError, StorageRefused
from slackwater.storage import open_store
from slackwater.storage.parquet_footer import FIELD_ID_KEY, read_footer

COLUMNS = pa.schema({"a": pa.int64()})


def batch(*rows: tuple[Any, ...], names: tuple[str, ...] = ("a",)) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: [row[at] for row in rows] for at, name in enumerate(names)})


def write(
    root: Path, batches: list[pa.RecordBatch], form: FileFormat
) -> list[tuple[tuple[str | None, ...], list[Any]]]:
    files = list(write_rows(batches, open_store(root), "new", form))
    assert len({file.path for file in files}) == len(files)
    found = []
    for file in files:
        place = root / file.path
        assert place.stat().st_size == file.size_bytes
        assert read_footer(footer_source(file.footer)).num_rows == file.num_rows
        rows = pq.read_table(place, partitioning=None).to_pylist()
        found.append((file.texts, [row["a"] for row in rows]))
    assert sorted(p for p in (root / "new").rglob("*.parquet")) == sorted(root / f.path for f in files)
    return found


def test_rows_of_all_batches_are_in_one_file(tmp_path: Path) -> None:
    assert write(tmp_path, [batch((1,), (2,)), batch((3,))], FileFormat(COLUMNS)) == [((), [1, 2, 3])]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert write(tmp_path, [batch((1,)).slice(1)], FileFormat(COLUMNS)) == []


def test_each_partition_has_a_file_of_its_own(tmp_path: Path) -> None:
    rows = [(1, "x", "é/"), (2, "x", "é/"), (3, "x", None), (4, "", "b"), (5, None, "b")]
    form = FileFormat(COLUMNS, ("d", "e"), ("P", "Q"))
    names = ("a", "d", "e")
    found = write(tmp_path, [batch(*rows[:3], names=names), batch(*rows[3:], names=names)], form)
    # What is written of an empty text is null.
    assert found == [(("x", "é/"), [1, 2]), (("x", None), [3]), ((None, "b"), [4, 5])]
    directories = {p.parent.relative_to(tmp_path / "new").as_posix() for p in tmp_path.rglob("*.parquet")}
    default = "__HIVE_DEFAULT_PARTITION__"
    assert directories == {"P=x/Q=é%2F", f"P=x/Q={default}", f"P={default}/Q=b"}


@pytest.mark.parametrize("sizes", [[7], [1] * 7, [3, 4], [2, 2, 3]])
def test_files_hold_no_more_rows_than_they_may(sizes: list[int], tmp_path: Path) -> None:
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    batches = [batch(*((n,) for n in range(end - size, end))) for size, end in zip(sizes, ends, strict=True)]
    found = write(tmp_path, batches, FileFormat(COLUMNS, max_rows=3))
    assert [rows for _, rows in found] == [[0, 1, 2], [3, 4, 5], [6]]


def test_types_are_those_that_spark_writes(tmp_path: Path) -> None:
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    given = pa.RecordBatch.from_pydict(
        {"a": pa.array([moment], pa.timestamp("us", "Asia/Kathmandu")), "n": pa.array([[1]])}
    )
    number = {FIELD_ID_KEY: b"12"}
    columns = pa.schema(
        [
            pa.field("n", pa.list_(pa.field("element", pa.int64())), metadata={FIELD_ID_KEY: b"11"}),
            pa.field("a", pa.timestamp("us", "UTC"), metadata=number),
        ]
    )
    (file,) = write_rows([given], open_store(tmp_path), "new", FileFormat(columns, codec="zstd"))
    found = pq.ParquetFile(tmp_path / file.path)
    assert file.path.endswith(".zstd.parquet")
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"
    assert [found.schema.column(at).path for at in range(2)] == ["n.list.element", "a"]
    assert str(found.schema.column(1).logical_type).startswith("Timestamp(isAdjustedToUTC=true, timeUnit=microseconds")
    assert found.schema_arrow.field("a").metadata[FIELD_ID_KEY] == b"12"
    assert pq.read_table(tmp_path / file.path)["a"][0].as_py() == moment
    assert b"ARROW:schema" not in (found.metadata.metadata or {})


def test_files_go_between_processes_as_batches() -> None:
    files = [WrittenFile("p", 1, 2, 3, ("a", None), b"f"), WrittenFile("q", 4, 5, 6, (), b"")]
    assert files_of(pa.Table.from_batches([files_batch(files)])) == files


def test_nothing_is_left_on_the_machine_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))

    def broken() -> Any:
        yield batch((1,))
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        list(write_rows(broken(), open_store(tmp_path), "new", FileFormat(COLUMNS)))
    list(write_rows([batch((1,))], open_store(tmp_path), "new", FileFormat(COLUMNS)))
    assert list(scratch.iterdir()) == []


def test_row_groups_are_encoded_in_their_order_beside_what_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP_BYTES", 80)
    batches = [batch(*((row,) for row in range(start, start + 10))) for start in range(0, 1000, 10)]
    threads = set()
    encode = pq.ParquetWriter.write_table

    def encoded(writer: pq.ParquetWriter, group: pa.Table, **options: Any) -> None:
        threads.add(threading.current_thread())
        encode(writer, group, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", encoded)
    ((_, found),) = write(tmp_path, [*batches, batch((1000,))], FileFormat(COLUMNS))
    assert found == list(range(1001))
    assert threads > {threading.main_thread()}
    (file,) = (tmp_path / "new").iterdir()
    assert pq.ParquetFile(file).num_row_groups == 101


@pytest.mark.parametrize("broken", [1, 3, 5])
def test_a_row_group_that_cannot_be_written_fails_all_of_it_and_leaves_nothing(
    broken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP_BYTES", 80)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "local"))
    (tmp_path / "local").mkdir()
    encode, calls = pq.ParquetWriter.write_table, itertools.count(1)

    def encoded(writer: pq.ParquetWriter, group: pa.Table, **options: Any) -> None:
        if next(calls) == broken:
            raise OSError("the disk is full")
        encode(writer, group, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", encoded)
    batches = [batch(*((row,) for row in range(10))) for _ in range(4)]
    with pytest.raises(StorageError, match=r"a data file cannot be written: the disk is full"):
        list(write_rows([*batches, batch((1,))], open_store(tmp_path), "new", FileFormat(COLUMNS)))
    assert list((tmp_path / "local").iterdir()) == []
    assert not (tmp_path / "new").exists()


def test_options_are_those_of_sparks_writer() -> None:
    assert options_of({"Compression": "ZSTD", "maxRecordsPerFile": 5}, "snappy") == ("zstd", 5)
    assert options_of({"other": 1}, "snappy") == ("snappy", 0)
    for bad in ({"compression": "lzo"}, {"maxRecordsPerFile": "many"}):
        with pytest.raises(InvalidArgument, match=r"must be"):
            options_of(bad, "snappy")


def test_stores_go_to_other_processes(tmp_path: Path) -> None:
    options = {"AWS_ENDPOINT_URL": "http://localhost:1", "aws_access_key_id": "k", "aws_secret_access_key": "s"}
    for place in (str(tmp_path), "s3://bucket/a b", "s3://bucket"):
        store = open_store(place, options)
        found = pickle.loads(pickle.dumps(store))  # noqa: S301
        assert found.root_url == store.root_url
        # The connections of one place are there once.
        again = pickle.loads(pickle.dumps(store))  # noqa: S301
        assert getattr(found, "_backend", None) is getattr(again, "_backend", None)
    with pytest.raises(StorageRefused, match="memory of one process"):
        pickle.dumps(open_store("memory://a"))


@pytest.mark.parametrize(
    ("directory", "place"), [(".slackwater-1/rows/p=1", ".slackwater-1/rows/p=1"), ("p=1", "."), ("", ".")]
)
def test_a_file_of_a_local_store_grows_where_a_cleanup_finds_it(tmp_path: Path, directory: str, place: str) -> None:
    store = open_store(tmp_path)
    growing = writing.LocalFile(store, directory, FileFormat(COLUMNS), ())
    (found,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert found.parent == tmp_path / place
    growing.discard()
    left = list(write_rows([batch((1,))] * 3, store, directory, FileFormat(COLUMNS, max_rows=1)))
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(tmp_path / f.path for f in left)
    assert {pq.read_table(tmp_path / file.path, partitioning=None).num_rows for file in left} == {1}
    # A temporary file of the system is for its owner alone.
    plain = tmp_path / "plain"
    plain.touch()
    assert {(tmp_path / file.path).stat().st_mode for file in left} == {plain.stat().st_mode}


def test_a_file_in_a_new_store_is_written_elsewhere_first(tmp_path: Path) -> None:
    file = writing.LocalFile(open_store(tmp_path / "new"), "", FileFormat(COLUMNS), ())
    try:
        assert not (tmp_path / "new").exists()
    finally:
        file.discard()


def test_a_file_on_another_file_system_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Path.replace

    def across(self: Path, target: Path) -> Path:
        if "rows" in str(target) and self.parent == tmp_path:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return original(self, target)

    monkeypatch.setattr(Path, "replace", across)
    (file,) = write_rows([batch((1,), (2,))], open_store(tmp_path), "rows", FileFormat(COLUMNS))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / file.path]
    assert pq.read_table(tmp_path / file.path)["a"].to_pylist() == [1, 2]

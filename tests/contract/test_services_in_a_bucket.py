"""Table services that need no Spark, in S3: listings of many pages, batches of deletions, tables across stores."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater import AddFile, Transaction
from slackwater.data_files.reader import ReadProjection, Split
from slackwater.data_files.rewriter import RewriteSpec, rewrite
from slackwater.data_files.writer import FileFormat
from slackwater.errors import ConcurrentWriteException, DataFileNotFound, InvalidArgument
from slackwater.log.table import Table
from slackwater.maintenance.clone import shallow_clone
from slackwater.maintenance.convert import ConvertRequest, convert
from slackwater.maintenance.restore import restore
from slackwater.maintenance.vacuum import VacuumRequest, vacuum
from slackwater.protocol.schema.ddl_columns import parse_column_list
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import ObjectStore, existence, listing, open_store
from slackwater.transaction.commit.factory import begin
from tests.contract.s3_server import BUCKET, s3_server
from tests.transaction.tables import StepStore, removes

_PAGE, _FILES = 7, 24
_EVERYTHING = VacuumRequest(0, untracked_hours=0, checks_retention=False)


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    """A server whose listings come in small pages."""
    with s3_server(_PAGE) as found:
        yield found


@pytest.fixture(autouse=True)
def _listed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", _PAGE)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"s3://{BUCKET}/a b%20\u00fc/{request.node.originalname}"


@pytest.fixture
def store(url: str, options: dict[str, str]) -> ObjectStore:
    """A table of one row a file, in partitions whose names URLs write otherwise, that was a directory of files."""
    store = open_store(url, options)
    store.delete([meta.path for meta in store.list_from("", recursive=True)])
    for number in range(_FILES):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [number]}), sink)
        store.put(f"p=a%20{number % 2}/part {number:02}", sink.getvalue().to_pybytes())
    result = convert(Table.at(url, options), ConvertRequest(parse_column_list("p STRING")))
    assert result is not None
    assert result.num_files == _FILES
    return store


def _ids(url: str, options: dict[str, str], version: int | None = None, outside: bool = False) -> list[int]:
    found = Snapshot.load(url, version, storage_options=options, allow_paths_outside_root=outside)
    return sorted(found.to_arrow(["id"])["id"].to_pylist())


def test_a_listing_by_several_requests_at_a_time_is_the_same(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_parts = store.list_from("", recursive=True)
    monkeypatch.setattr(listing, "PAGE", 1000)
    assert in_parts == store.list_from("", recursive=True)
    assert len(in_parts) > _FILES
    parts: list[tuple[str, str | None]] = []
    part = listing._part

    def told(backend: Any, prefix: str | None, behind: str, last: str | None) -> list[Any]:
        parts.append((behind, last))
        return part(backend, prefix, behind, last)

    monkeypatch.setattr(listing, "PAGE", _PAGE)
    monkeypatch.setattr(listing, "_part", told)
    assert store.list_from("", recursive=True) == in_parts
    assert len(parts) > 1


def _data_files(store: ObjectStore) -> set[str]:
    return {meta.path for meta in store.list_from("", recursive=True) if not meta.path.startswith("_")}


def _removed(url: str, options: dict[str, str], ids: range) -> None:
    """All files go but those of `ids`."""
    before = Snapshot.load(url, storage_options=options)
    kept = {f"part%20{number:02}" for number in ids}
    gone = [path for path in before.files()["path"].to_pylist() if path.rpartition("/")[2] not in kept]
    transaction = begin(before)
    for remove in removes(before, *gone):
        transaction.remove(remove)
    transaction.commit("DELETE")


def test_the_server_lists_in_pages(store: ObjectStore, options: dict[str, str]) -> None:
    with urllib.request.urlopen(f"{options['AWS_ENDPOINT_URL']}/{BUCKET}?list-type=2") as answer:  # noqa: S310
        assert answer.read().count(b"<Contents>") == _PAGE
    assert len(store.list_from("", recursive=True)) > _PAGE


def test_a_vacuum_deletes_what_no_version_needs(store: ObjectStore, url: str, options: dict[str, str]) -> None:
    named = _data_files(store)
    store.put("p=a%20 0/of a killed writer", b"x")
    _removed(url, options, range(3))
    result = vacuum(Table.at(url, options), _EVERYTHING)
    assert len(result.paths) == _FILES - 3 + 1
    assert _data_files(store) == {path for path in named if path[-2:] in ("00", "01", "02")}
    assert _ids(url, options) == [0, 1, 2]
    told = Snapshot.load(url, storage_options=options).history().entries(2)
    assert [info["operation"] for _, _, info in told] == ["VACUUM END", "VACUUM START"]


def test_no_file_comes_back_while_a_vacuum_deletes(store: ObjectStore, url: str, options: dict[str, str]) -> None:
    refused: list[str] = []

    def before(operation: str, _: str) -> None:
        if operation == "delete" and not refused:
            with pytest.raises(ConcurrentWriteException, match="a running VACUUM may delete"):
                restore(Table.at(url, options), 0)
            refused.append(operation)

    _removed(url, options, range(3))
    stepped: Any = StepStore(store, before)
    vacuum(Table(stepped), _EVERYTHING)
    assert refused
    assert _ids(url, options) == [0, 1, 2]


def test_more_objects_go_than_one_request_deletes(store: ObjectStore) -> None:
    present = sorted(_data_files(store))
    missing = [f"missing/{number}" for number in range(1_500)]
    store.delete([present[0], *missing, *present[1:20]])
    assert sorted(_data_files(store)) == present[20:]


@pytest.mark.parametrize("few", [0, _FILES])
def test_a_table_is_restored_where_its_files_are_there(
    store: ObjectStore, url: str, options: dict[str, str], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More files than these are looked for by a listing, and not one by one.
    monkeypatch.setattr(existence, "_FEW", few)
    _removed(url, options, range(3))
    assert _ids(url, options) == [0, 1, 2]
    restore(Table.at(url, options), 0)
    assert _ids(url, options) == list(range(_FILES))
    store.delete([next(path for path in _data_files(store) if path.endswith("part 05"))])
    restore(Table.at(url, options), 1)
    with pytest.raises(DataFileNotFound, match="part 05"):
        restore(Table.at(url, options), 0)
    assert _ids(url, options) == [0, 1, 2]


def test_rows_of_many_objects_become_those_of_one(store: ObjectStore) -> None:
    columns = pa.schema([("id", pa.int64())])
    splits = [Split(meta.path, size_bytes=meta.size_bytes) for meta in store.list_from("", recursive=True)]
    small = [split for split in splits if not split.place.startswith("_")]
    done = rewrite(store, small, "new", RewriteSpec(ReadProjection(columns), FileFormat(columns)), readers=2)
    (written,) = done.files
    assert (done.num_read, len(small)) == (_FILES, _FILES)
    rows = pq.read_table(pa.BufferReader(store.read(written.path)))["id"].to_pylist()
    assert rows == [*range(0, _FILES, 2), *range(1, _FILES, 2)]


def test_a_bucket_is_the_same_by_each_of_its_schemes(store: ObjectStore, url: str, options: dict[str, str]) -> None:
    other = url.replace("s3://", "s3a://")
    with pytest.raises(InvalidArgument, match="onto itself"):
        shallow_clone(Snapshot.load(url, storage_options=options), Table.at(other, options), is_replaced=True)
    # As writers name them that know absolute paths only.
    (file,) = Snapshot.load(url, storage_options=options).files("id = 0").to_pylist()
    transaction = Transaction(url, storage_options=options)
    transaction.remove(file["path"])
    absolute = f"{open_store(other, options).root_url}/{file['path']}"
    transaction.add(AddFile(absolute, dict(file["partitionValues"]), file["size"], 0, stats=file["stats"]))
    transaction.commit("WRITE")
    assert _ids(url, options) == _ids(other, options) == list(range(_FILES))
    assert vacuum(Table.at(url, options), _EVERYTHING).paths == ()
    assert len(_data_files(store)) == _FILES


def test_a_clone_reads_the_files_of_a_bucket(
    store: ObjectStore, url: str, options: dict[str, str], tmp_path: Path
) -> None:
    source = Snapshot.load(url, storage_options=options)
    for target in (f"{url}-clone", str(tmp_path / "clone")):
        table = Table.at(target, options, follows_outside=True)
        assert shallow_clone(source, table).source_num_of_files == _FILES
        assert _ids(target, options, outside=True) == list(range(_FILES))
    _removed(f"{url}-clone", options, range(0))
    assert vacuum(Table.at(f"{url}-clone", options, follows_outside=True), _EVERYTHING).paths == ()
    assert len(_data_files(store)) == _FILES
    assert _ids(url, options) == list(range(_FILES))

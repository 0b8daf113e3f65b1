"""Our rows against those of other engines, and our live files against deltalake's, version by version."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

from slackwater.errors import MissingCommit, VersionNotFound
from slackwater.log.snapshot import LogSnapshot

from .golden import EXPECTATIONS, GoldenTable, each, is_readable, table_hash, tables

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PEERS = ("deltalake through DataFusion", "deltalake through pyarrow", "DuckDB")
_LEFT_OUT: Mapping[str, str] = EXPECTATIONS["peers"]["left_out"]
_UNLIKE_OURS: Mapping[tuple[str, str], Mapping[str, str]] = {
    (entry["peer"], name): entry for entry in EXPECTATIONS["peers"]["unlike_ours"] for name in entry["tables"]
}
_REFUSED_VERSIONS: Mapping[str, Mapping[str, Any]] = EXPECTATIONS["peers"]["versions_that_deltalake_alone_refuses"]
_READABLE = [t for t in tables() if is_readable(t)]

_WITH_HISTORY = [
    t
    for t in tables()
    if t.validity in ("valid", "log-only", "incomplete")
    and not t.foreign_features
    and t.id not in {**EXPECTATIONS["live_files_unlike_the_index"], **EXPECTATIONS["refused"]}
]

OurAnswer = Callable[[GoldenTable], tuple["StructType", dict[str, Any]]]
PeerRead = Callable[[Path], pa.Table]


@pytest.fixture(scope="session")
def peer_reads() -> Mapping[str, PeerRead]:
    """How each engine reads a table; engines that are not installed are absent."""
    reads = {**_deltalake_reads(), **_duckdb_read()}
    return {name: reads[name] for name in _PEERS if name in reads}


@pytest.mark.spark
@pytest.mark.classic
@pytest.mark.parametrize("peer", _PEERS)
@pytest.mark.parametrize("table", each(t for t in _READABLE if t.id not in _LEFT_OUT))
def test_another_engine_reads_the_same_rows(
    table: GoldenTable, peer: str, peer_reads: Mapping[str, PeerRead], our_answer: OurAnswer
) -> None:
    if peer not in peer_reads:
        pytest.skip(f"{peer}: not installed here")
    expected = _UNLIKE_OURS.get((peer, table.id), {"outcome": "agrees", "reason": "nothing is known against it"})
    ours = our_answer(table)[1]["hash"]
    outcome, found = _outcome(peer_reads[peer], table, ours)
    assert outcome == expected["outcome"], f"{peer}: {found} ({expected['reason']})"


@pytest.mark.parametrize("table", each(_WITH_HISTORY))
def test_deltalake_finds_the_same_live_files_at_every_version(table: GoldenTable) -> None:
    deltalake = pytest.importorskip("deltalake")
    refused = _REFUSED_VERSIONS.get(table.id, {"versions": []})["versions"]
    for version in LogSnapshot.load(table.root).history().versions:
        try:
            actions = pa.table(deltalake.DeltaTable(str(table.root), version=version).get_add_actions())
        except Exception:  # noqa: BLE001  (deltalake has one error for many causes)
            if version not in refused:
                with pytest.raises((VersionNotFound, MissingCommit)):
                    LogSnapshot.load(table.root, version)
            continue
        ours = LogSnapshot.load(table.root, version).live_files(["path"])
        assert version not in refused
        assert _paths(ours) == _paths(actions), f"version {version}"


def test_every_difference_of_a_peer_is_of_a_table_that_is_compared() -> None:
    compared = {table.id for table in _READABLE} - set(_LEFT_OUT)
    assert {peer for peer, _ in _UNLIKE_OURS} <= set(_PEERS)
    assert {name for _, name in _UNLIKE_OURS} <= compared
    assert set(_REFUSED_VERSIONS) <= {table.id for table in _WITH_HISTORY}


def _paths(files: pa.Table) -> list[str]:
    return sorted(unquote(path) for path in files["path"].to_pylist())


def _outcome(read: PeerRead, table: GoldenTable, ours: str) -> tuple[str, str]:
    try:
        rows = read(table.root)
    except Exception as error:  # noqa: BLE001  (each engine fails with its own kinds)
        return "fails", f"{type(error).__name__}: {error}"
    theirs = table_hash()(rows)
    return "agrees" if theirs["hash"] == ours else "differs", str(theirs)


def _deltalake_reads() -> dict[str, PeerRead]:
    try:
        import deltalake
    except ImportError:
        return {}

    def with_datafusion(root: Path) -> pa.Table:
        query = deltalake.QueryBuilder().register("golden", deltalake.DeltaTable(str(root)))
        return pa.table(query.execute("SELECT * FROM golden"))

    def with_pyarrow(root: Path) -> pa.Table:
        return deltalake.DeltaTable(str(root)).to_pyarrow_table()

    return {"deltalake through DataFusion": with_datafusion, "deltalake through pyarrow": with_pyarrow}


def _duckdb_read() -> dict[str, PeerRead]:
    """DuckDB with the delta extension of the package duckdb-extension-delta, loaded from its file: no download."""
    try:
        import duckdb

        package = importlib.metadata.distribution("duckdb-extension-delta")
    except ImportError:
        return {}
    extension = next(
        (f for f in package.files or () if f.match(f"*/v{duckdb.__version__}/delta.duckdb_extension")), None
    )
    if extension is None:
        return {}
    connections: list[Any] = []

    def read(root: Path) -> pa.Table:
        if not connections:
            connections.append(duckdb.connect())
            connections[0].execute(f"LOAD '{package.locate_file(extension)}'")
            connections[0].execute("SET TimeZone = 'UTC'")
        try:
            return connections[0].execute("SELECT * FROM delta_scan(?)", [str(root)]).to_arrow_table()
        except duckdb.Error:
            # An internal error leaves the database unusable for those that come after.
            connections.clear()
            raise

    return {"DuckDB": read}

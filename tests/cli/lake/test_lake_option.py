"""`slackwater --lake`: commands on tables that only their commit owner can read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from tests.cli.commands import error, run
from tests.owner.served.serving import served


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A lake with a catalog-managed table whose last commit is not published."""
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    lake = LogLake(owner, owner.root_url)
    lake._create_log("sales.orders", StructType((StructField("id", LONG),)), managed="catalogManaged")
    with lake.transaction() as tx:
        tx.table("sales.orders").append(pa.table({"id": [1, 2]}))
    lake.close()
    return tmp_path / "lake"


def test_a_table_is_read_with_its_lake(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = str(root / "sales.orders")
    assert "slackwater --lake LAKE" in error("count", table)
    assert run("--lake", str(root), "count", table).stdout.startswith("2 ")
    monkeypatch.setenv("SLACKWATER_LAKE", str(root))
    assert run("count", table).stdout.startswith("2 ")
    assert "WRITE" in run("history", table).stdout
    monkeypatch.setenv("SLACKWATER_LAKE", str(root / "missing"))
    assert "is not a lake" in error("count", table)
    # Help, and commands that name their lake themselves, need no other one.
    assert "COLUMNS" in run("head", "--help").stdout.upper()
    assert "sales.orders" in run("lake", "tables", str(root)).stdout


def test_a_table_is_read_with_a_server_of_its_lake(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = str(root / "sales.orders")
    with served(EmbeddedOwner.open(root, backfill_delay_s=None)) as url:
        assert run("--lake", url, "count", table).stdout.startswith("2 ")
        api = f"uc:{url}/api/2.1/unity-catalog"
        assert "Set SLACKWATER_CATALOG" in error("--lake", api, "count", table)
        monkeypatch.setenv("SLACKWATER_CATALOG", "main")
        assert run("--lake", api, "count", table).stdout.startswith("2 ")
        assert "sales.orders" in run("lake", "tables", api).stdout

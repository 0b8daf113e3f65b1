"""Tables of UniForm: their rows are written, their Iceberg metadata is not."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import slackwater
from slackwater import Snapshot
from slackwater.errors import UnsupportedFeature

_FORMATS = "delta.universalFormat.enabledFormats"
_COMPATIBLE = {"delta.columnMapping.mode": "name", "delta.enableIcebergCompatV2": "true"}


def _table(path: Path) -> None:
    """Write a table, and enable UniForm like an engine with a converter to Iceberg."""
    slackwater.write(path, pa.table({"id": [1, 2]}), properties=_COMPATIBLE)
    first = (path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    (metadata,) = (action["metaData"] for action in map(json.loads, first) if "metaData" in action)
    metadata["configuration"][_FORMATS] = "iceberg"
    (path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"metaData": metadata}))


def test_a_write_keeps_the_property_and_writes_no_iceberg_metadata(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _table(path)
    slackwater.write(path, pa.table({"id": [3]}), mode="append")
    slackwater.delete(path, "id = 1")
    snapshot = Snapshot.load(path)
    assert sorted(snapshot.to_arrow()["id"].to_pylist()) == [2, 3]
    assert snapshot.metadata.configuration[_FORMATS] == "iceberg"
    assert not (path / "metadata").exists()
    assert {p.suffix for p in path.rglob("*") if p.is_file() and "_delta_log" not in p.parts} == {".parquet"}


def test_new_tables_cannot_have_the_property(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match=r"enabledFormats = 'iceberg' is not supported: metadata of other"):
        slackwater.write(tmp_path / "t", pa.table({"id": [1]}), properties={**_COMPATIBLE, _FORMATS: "iceberg"})
    assert not (tmp_path / "t").exists()

"""The names that users import, pinned; and that logs can be read where no Spark is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import slackwater

TABLES = Path(__file__).parent / "data" / "tables"


def test_the_public_names_are_these() -> None:
    assert sorted(slackwater.__all__) == [
        "AddFile",
        "DeltaMergeBuilder",
        "DeltaTable",
        "DeltaTableBuilder",
        "IdentityGenerator",
        "Lake",
        "RemoveFile",
        "Snapshot",
        "Transaction",
        "__version__",
        "enable",
        "errors",
        "refresh",
    ]
    assert all(hasattr(slackwater, name) for name in slackwater.__all__)


def test_the_public_methods_of_a_snapshot_are_these() -> None:
    names = {name for name in dir(slackwater.Snapshot) if not name.startswith("_")}
    assert names == {
        "after",
        "column_mapping_mode",
        "configuration",
        "despite_damage",
        "domain_metadata",
        "files",
        "highest_base_row_id",
        "history",
        "live_files",
        "load",
        "metadata",
        "of_first_commit",
        "open",
        "physical_paths",
        "plan",
        "properties",
        "protocol",
        "report",
        "schema",
        "segment",
        "state",
        "store",
        "table",
        "through",
        "timestamp_ms",
        "tombstones",
        "transactions",
        "update",
        "version",
    }


def test_the_public_methods_of_a_table_are_delta_sparks_and_our_own() -> None:
    names = {name for name in dir(slackwater.DeltaTable) if not name.startswith("_")}
    assert names - {"system_time", "where"} == {
        "addColumns",
        "addConstraint",
        "addFeatureSupport",
        "alias",
        "changeColumnType",
        "checkpoint",
        "cleanUpLog",
        "clusterBy",
        "compactLog",
        "create",
        "createIfNotExists",
        "createOrReplace",
        "delete",
        "detail",
        "dropColumns",
        "dropConstraint",
        "dropFeatureSupport",
        "forName",
        "forPath",
        "history",
        "isDeltaTable",
        "merge",
        "moveColumn",
        "removeDomainMetadata",
        "renameColumn",
        "replace",
        "replaceColumns",
        "setColumnComment",
        "setColumnDefault",
        "setColumnNullable",
        "setDomainMetadata",
        "setProperties",
        "toDF",
        "unsetProperties",
        "update",
        "upgradeTableProtocol",
    }


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_public_methods_of_a_lake_are_these() -> None:
    names = "adopt as_of backfill close connect create_table history location open release repair run table tables"
    of_the_log = "create_log owner recover_state snapshot table_at table_of take_anew"
    assert _public(slackwater.Lake) == {*f"{names} transaction {of_the_log}".split()}


def test_the_public_methods_of_a_transaction_over_tables_are_these() -> None:
    from slackwater.spark.lake.transaction import LakeTransaction

    names = "begun_at commit commit_timestamp current_date current_time current_timestamp is_open lock rollback table"
    of_the_log = "id log owner_ids reading results seniority_ms snapshot time_zone versions writing"
    assert _public(LakeTransaction) == {*f"{names} {of_the_log}".split()}


def test_tables_of_lakes_transactions_and_time_slices_are_delta_tables() -> None:
    from slackwater.spark.lake.time_slice import TimeSlice, TimeSliceTable
    from slackwater.spark.lake.transaction import TransactionTable

    table = _public(slackwater.DeltaTable)
    assert _public(TransactionTable) - table == {"append", "overwrite"}
    assert _public(TimeSliceTable) - table == {"version"}
    assert _public(TimeSlice) == {"snapshot", "table", "tables", "timestamp", "version"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        slackwater.nonsense  # noqa: B018


def test_a_log_reads_without_pyspark_and_what_needs_it_says_how_to_get_it() -> None:
    program = """
import sys
sys.modules["pyspark"] = None
import slackwater
assert slackwater.Snapshot.load(sys.argv[1]).version == 1
loaded = {name for name in sys.modules if name.startswith("slackwater.spark")}
assert loaded == {"slackwater.spark", "slackwater.spark.forgotten"}, loaded
try:
    slackwater.enable
except ModuleNotFoundError as error:
    print(error)
"""
    table = str(TABLES / "table-with-dv-small")
    done = subprocess.run([sys.executable, "-c", program, table], check=True, capture_output=True, text=True)
    assert "pip install 'slackwater[spark]'" in done.stdout

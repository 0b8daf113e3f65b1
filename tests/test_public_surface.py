"""The names that users import, pinned; and that logs can be read where no Spark is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import slackwater

MYPY = ["mypy", "--no-incremental", "--cache-dir=/dev/null"]
TABLES = Path(__file__).parent / "data" / "tables"


def test_the_public_names_are_these() -> None:
    assert sorted(slackwater.__all__) == [
        "AddFile",
        "CommitMetrics",
        "DeltaMergeBuilder",
        "DeltaOptimizeBuilder",
        "DeltaTable",
        "DeltaTableBuilder",
        "IdentityGenerator",
        "Lake",
        "LogLake",
        "RemoveFile",
        "Snapshot",
        "Transaction",
        "__version__",
        "changes_by_key",
        "commit_metrics",
        "delete",
        "enable",
        "errors",
        "html_page",
        "html_table",
        "install_delta_names",
        "refresh",
        "stream",
        "watch",
        "write",
    ]
    assert all(hasattr(slackwater, name) for name in slackwater.__all__)


def test_the_public_methods_of_a_snapshot_are_these() -> None:
    names = {name for name in dir(slackwater.Snapshot) if not name.startswith("_")}
    assert names == {
        "checksum",
        "configuration",
        "count",
        "domain_metadata",
        "files",
        "history",
        "load",
        "metadata",
        "properties",
        "protocol",
        "report",
        "schema",
        "timestamp",
        "timestamp_ms",
        "to_arrow",
        "to_batches",
        "to_duckdb",
        "to_pandas",
        "to_polars",
        "tombstones",
        "transactions",
        "update",
        "version",
    }


def test_a_snapshot_offers_no_more_than_these(tmp_path: Path) -> None:
    slackwater.Transaction.create(tmp_path, '{"type":"struct","fields":[]}').commit("CREATE TABLE")
    snapshot = slackwater.Snapshot.load(tmp_path)
    assert isinstance(snapshot, slackwater.Snapshot)
    assert dir(snapshot) == dir(slackwater.Snapshot)
    assert slackwater.Transaction(snapshot.update()).snapshot is snapshot


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
        "clone",
        "cloneAtTimestamp",
        "cloneAtVersion",
        "clusterBy",
        "compactLog",
        "convertToDelta",
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
        "generate",
        "history",
        "isDeltaTable",
        "merge",
        "moveColumn",
        "optimize",
        "removeDomainMetadata",
        "renameColumn",
        "reorg",
        "replace",
        "replaceColumns",
        "restoreToTimestamp",
        "restoreToVersion",
        "setColumnComment",
        "setColumnDefault",
        "setColumnNullable",
        "setDomainMetadata",
        "setProperties",
        "toDF",
        "truncateHistory",
        "unsetProperties",
        "update",
        "upgradeTableProtocol",
        "vacuum",
    }


def _public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_public_methods_of_a_lake_are_these() -> None:
    names = "activity adopt as_of attach backfill clone close connect create_table detach history in_session location"
    changed = "drop_table maintain migrate open release rename_table repair restore run"
    of_the_log = "owner recover_state snapshot"
    assert _public(slackwater.Lake) == {*f"{names} {changed} table table_names tables transaction {of_the_log}".split()}


def test_the_public_methods_of_a_transaction_over_tables_are_these() -> None:
    from slackwater.spark.lake.transaction import LakeTransaction

    names = "begun_at commit commit_timestamp current_date current_time current_timestamp is_open lock rollback table"
    of_the_log = "id log owner_ids reading results seniority_ms snapshot time_zone versions writing written"
    assert _public(LakeTransaction) == {*f"{names} {of_the_log}".split()}


def test_the_public_members_of_a_transaction_on_one_table_are_these() -> None:
    names = "add application_version commit create read remove set_domain_metadata set_transaction snapshot"
    assert _public(slackwater.Transaction) == {*f"{names} remove_domain_metadata".split()}


def test_the_public_members_of_files_are_these() -> None:
    of_both = "base_row_id data_change default_row_commit_version deletion_vector deletion_vector_id from_json"
    both = {*f"{of_both} partition_values path size stats tags to_json".split()}
    assert _public(slackwater.AddFile) == both | {"clustering_provider", "modification_time", "num_records"}
    assert _public(slackwater.RemoveFile) == both | {"deletion_timestamp"}


def test_the_public_members_of_system_time_are_these() -> None:
    from slackwater.spark.history.system_time import SystemTimeRelation

    assert _public(SystemTimeRelation) == {*"all as_of between changes draw from_to since toDF".split()}


def test_the_public_methods_of_builders_are_delta_sparks() -> None:
    table = "addColumn addColumns clusterBy comment execute location partitionedBy property tableName"
    merge = "execute whenMatchedDelete whenMatchedUpdate whenMatchedUpdateAll withSchemaEvolution"
    missing = "whenNotMatchedInsert whenNotMatchedInsertAll"
    of_target = "whenNotMatchedBySourceDelete whenNotMatchedBySourceUpdate"
    assert _public(slackwater.DeltaTableBuilder) == {*table.split()}
    assert _public(slackwater.DeltaMergeBuilder) == {
        *f"{merge} {missing} {of_target}".split(),
        "clauses",
        "evolves_schema",
    }
    assert _public(slackwater.DeltaOptimizeBuilder) == {*"executeCompaction executeZOrderBy full where".split()}


def test_tables_of_lakes_transactions_and_time_slices_are_delta_tables() -> None:
    from slackwater.spark.lake.time_slice import TimeSlice, TimeSliceTable
    from slackwater.spark.lake.transaction import TransactionTable

    table = _public(slackwater.DeltaTable)
    assert _public(TransactionTable) - table == {"append", "overwrite"}
    assert _public(TimeSliceTable) - table == {"version"}
    assert _public(TimeSlice) == {"snapshot", "table", "tables", "timestamp", "version"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        slackwater.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_a_mistyped_name_is_told_what_was_meant() -> None:
    for mistyped, meant in (("Deltatable", "DeltaTable"), ("enabel", "enable"), ("Snapshots", "Snapshot")):
        with pytest.raises(AttributeError, match=f"no attribute '{mistyped}': did you mean '{meant}'\\?"):
            getattr(slackwater, mistyped)


def test_all_names_are_offered_also_those_that_are_not_loaded_yet() -> None:
    program = "import slackwater; print(*[name for name in dir(slackwater) if not name.startswith('__')])"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [name for name in slackwater.__all__ if not name.startswith("__")]


def test_a_mistyped_name_fails_under_mypy(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import slackwater\n\nslackwater.enable\nslackwater.DeltaTabel\nslackwater.Lake\n")
    package = [*MYPY, "--follow-imports=skip", "--config-file=", str(slackwater.__file__), str(program)]
    done = subprocess.run([sys.executable, "-m", *package], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert [line.partition(": ")[2] for line in done.stdout.splitlines() if "program" in line] == [
        'error: Module has no attribute "DeltaTabel"; maybe "DeltaTable"?  [attr-defined]'
    ]


def test_a_log_reads_without_pyspark_and_what_needs_it_says_how_to_get_it() -> None:
    program = """
import sys
sys.modules["pyspark"] = None
import slackwater
assert slackwater.Snapshot.load(sys.argv[1]).version == 1
loaded = {name for name in sys.modules if name.startswith("slackwater.spark")}
hooks = ("exception_bases", "missing_enable_hint", "import_hooks")
ours = {"slackwater.spark", *(f"slackwater.spark.{name}" for name in hooks)}
assert loaded == ours, loaded
assert slackwater.errors.SlackwaterError.__mro__[-3:] == (Exception, BaseException, object)
try:
    slackwater.enable
except ModuleNotFoundError as error:
    print(error)
"""
    table = str(TABLES / "table-with-dv-small")
    done = subprocess.run([sys.executable, "-c", program, table], check=True, capture_output=True, text=True)
    assert "pip install 'slackwater[spark]'" in done.stdout

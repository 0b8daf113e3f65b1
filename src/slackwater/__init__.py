"""Slackwater: Delta Lake in pure Python on Spark, no JAR; classic Spark and Spark Connect.

import slackwater
slackwater.enable(spark)
spark.read.format("delta").option("versionAsOf", 3).load(path)
slackwater.DeltaTable.forPath(spark, path).history().show()
slackwater.install_delta_names()                             # from delta.tables import DeltaTable, without delta-spark
df.write.format("delta").mode("append").save(path)
slackwater.DeltaTable.forPath(spark, path).delete("day < '2020-01-01'")      # update, merge
slackwater.DeltaTable.create(spark).location(path).addColumn("id", "BIGINT").execute()
slackwater.stream(df).to(lake, {"orders": f, "totals": g})   # each micro-batch in all of the tables, or in none
slackwater.Lake.open("/data/lake")["flights"]                # named tables, commits ratified by their owner
slackwater.Snapshot.load(path).files(where="month = 3")      # without Spark
slackwater.Transaction(path)                                 # commits, without Spark
slackwater.LogLake.open("/data/lake")["flights"]             # a lake without Spark
slackwater.write(path, frame, mode="append")                 # pandas, Polars, Arrow, without Spark; also delete
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slackwater import errors
from slackwater.spark import exception_bases, missing_enable_hint
from slackwater.version import __version__

if TYPE_CHECKING:
    from slackwater.html.components import table as html_table
    from slackwater.html.page import page as html_page
    from slackwater.lake.lake import LogLake
    from slackwater.protocol.actions.files import AddFile, RemoveFile
    from slackwater.rows.delete import delete
    from slackwater.rows.write import write
    from slackwater.scan.public_snapshot import Snapshot
    from slackwater.spark.delta_import_shim import install_delta_names
    from slackwater.spark.dml.merge.builder import DeltaMergeBuilder
    from slackwater.spark.enable import enable
    from slackwater.spark.lake.lake import Lake
    from slackwater.spark.maintenance.builder import DeltaOptimizeBuilder
    from slackwater.spark.read.load import refresh
    from slackwater.spark.streams.apply_changes import changes_by_key
    from slackwater.spark.streams.multi_table_sink import stream
    from slackwater.spark.streams.query_watcher import watch
    from slackwater.spark.table.builder import DeltaTableBuilder, IdentityGenerator
    from slackwater.spark.table.table import DeltaTable
    from slackwater.transaction.observability.commit_metrics import CommitMetrics, commit_metrics
    from slackwater.transaction.table.public_transaction import Transaction

__all__ = [
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

# Imported on first use, so that logs can be read without Spark and without modules for writers; tasks that read or
# write rows need neither. After a colon: the name in the module.
_ON_DEMAND = {
    "AddFile": "slackwater.protocol.actions.files",
    "CommitMetrics": "slackwater.transaction.observability.commit_metrics",
    "commit_metrics": "slackwater.transaction.observability.commit_metrics",
    "RemoveFile": "slackwater.protocol.actions.files",
    "Snapshot": "slackwater.scan.snapshot:PublicSnapshot",
    "Transaction": "slackwater.transaction.table.public_transaction",
    "delete": "slackwater.rows.delete",
    "write": "slackwater.rows.write",
    "enable": "slackwater.spark.enable",
    "install_delta_names": "slackwater.spark.delta_import_shim",
    "refresh": "slackwater.spark.read.load",
    "Lake": "slackwater.spark.lake.lake",
    "LogLake": "slackwater.lake.lake",
    "html_page": "slackwater.html.page:page",
    "html_table": "slackwater.html.components:table",
    "DeltaMergeBuilder": "slackwater.spark.dml.merge.builder",
    "DeltaOptimizeBuilder": "slackwater.spark.maintenance.builder",
    "DeltaTable": "slackwater.spark.table.table",
    "DeltaTableBuilder": "slackwater.spark.table.builder",
    "IdentityGenerator": "slackwater.spark.table.builder",
    "changes_by_key": "slackwater.spark.streams.apply_changes",
    "stream": "slackwater.spark.streams.multi_table_sink",
    "watch": "slackwater.spark.streams.query_watcher",
}


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _on_demand(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module 'slackwater' has no attribute {name!r}{_meant(name)}")
    module, _, called = _ON_DEMAND[name].partition(":")
    if module.startswith("slackwater.spark."):
        _require_pyspark(name)
    try:
        return getattr(import_module(module), called or name)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "pyspark":
            raise ModuleNotFoundError(
                f"slackwater.{name} needs PySpark 4.0 or newer: pip install 'slackwater[spark]'", name="pyspark"
            ) from error
        raise


def _require_pyspark(name: str) -> None:
    """Raise ImportError if the installed PySpark is too old. A missing PySpark raises its own error on import."""
    try:
        found = str(import_module("pyspark").__version__)
    except ModuleNotFoundError:
        return
    if int(found.partition(".")[0]) < 4:
        raise ImportError(
            f"slackwater.{name} needs PySpark 4.0 or newer, found {found}: pip install 'pyspark>=4.0'", name="pyspark"
        )


def _meant(name: str) -> str:
    from difflib import get_close_matches

    known = {public.lower(): public for public in __all__}
    return "".join(f": did you mean {known[found]!r}?" for found in get_close_matches(name.lower(), known, 1))


if not TYPE_CHECKING:
    # Hidden from type checkers: otherwise they would accept every name, including mistyped ones.
    __getattr__ = _on_demand

exception_bases.watch()
missing_enable_hint.watch()

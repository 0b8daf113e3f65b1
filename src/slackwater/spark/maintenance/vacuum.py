"""VACUUM for a session: its settings, an inventory in a DataFrame, the result in a DataFrame.

Source: delta-spark's VACUUM.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument
from slackwater.log.table import Table
from slackwater.maintenance.vacuum import VacuumRequest, VacuumResult, vacuum
from slackwater.protocol.actions.paths import is_absolute
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.storage.locations import DataLocations, as_hadoop_names
from slackwater.storage.store import ObjectMeta

VACUUM_RESULT = spark_types.StructType().add("path", "string")
"""The result column of `DeltaTable.vacuum`."""
_INVENTORY = {"path": "string", "length": "bigint", "isDir": "boolean", "modificationTime": "bigint"}


def vacuum_table(
    spark: SparkSession, table: Table, request: VacuumRequest, lite: bool | None, inventory: DataFrame | None
) -> DataFrame:
    """Run `slackwater.maintenance.vacuum.vacuum` with the session's settings. Return a frame with VACUUM_RESULT.

    If `lite` is None, the session's setting applies. `inventory` replaces the listing, in delta-spark's form.
    """
    settings = SessionSettings.of(spark)
    asked = replace(
        request,
        lite=settings.vacuums_lite if lite is None else lite,
        checks_retention=settings.checks_retention,
        logs=settings.logs_vacuum,
        user_metadata=settings.user_metadata,
        user_name=settings.user_name,
    )
    with Progress.of(spark, "VACUUM") as progress:
        if inventory is not None:
            with progress.stage("reading the inventory"):
                asked = replace(asked, inventory=inventory_files(inventory, table))
        with ExitStack() as stages:
            stages.enter_context(progress.stage("looking for files"))

            def deleting(done: int, total: int) -> None:
                if not done:
                    stages.enter_context(progress.stage("deleting", files=total))

            result = vacuum(table, asked, deleting=deleting)
        progress.done(files=len(result.paths))
    paths = _told(result, DataLocations(table.store))
    what = "VACUUM: files that would go" if request.dry_run else "VACUUM"
    return result_frame(spark, [(path,) for path in paths], VACUUM_RESULT, what)


def inventory_files(inventory: DataFrame, table: Table) -> list[ObjectMeta]:
    """Return the files in an inventory, relative to the table's root.

    Raises InvalidArgument for an invalid inventory.
    """
    found = {field.name: field.dataType.simpleString() for field in inventory.schema.fields}
    wrong = [f"{name} {kind.upper()}" for name, kind in _INVENTORY.items() if found.get(name) != kind]
    if wrong:
        raise InvalidArgument(
            f"an inventory for VACUUM needs columns {', '.join(f'{n} {k.upper()}' for n, k in _INVENTORY.items())}. "
            f"Missing or of another type: {', '.join(wrong)}",
            error_class="DELTA_INVALID_INVENTORY_SCHEMA",
        )
    files = inventory.select(*_INVENTORY).where("NOT isDir").toArrow()
    paths = _relative(files["path"].to_pylist(), DataLocations(table.store))
    values = zip(paths, files["length"].to_pylist(), files["modificationTime"].to_pylist(), strict=True)
    _require_complete(files)
    return [ObjectMeta(*each) for each in values]


def _require_complete(files: pa.Table) -> None:
    unknown = next((name for name in files.column_names if files[name].null_count), None)
    if unknown is not None:
        raise InvalidArgument(f"an inventory for VACUUM must not contain NULLs, found some in {unknown}")


def _relative(paths: list[str], locations: DataLocations) -> list[str]:
    roots = [f"{root}/" for root in (locations.root, *([f"file:{locations.root}"] if locations.is_local else []))]
    relative = []
    for path in paths:
        named = as_hadoop_names(path)
        cut = next((named.removeprefix(root) for root in roots if named.startswith(root)), path)
        if is_absolute(cut):
            raise InvalidArgument(f"{locations.root}: the inventory names {path!r}, which is not below the root")
        relative.append(cut)
    return relative


def _told(result: VacuumResult, locations: DataLocations) -> list[str]:
    if not result.dry_run:
        return [locations.root]
    return [locations.place(path) for path in result.paths]

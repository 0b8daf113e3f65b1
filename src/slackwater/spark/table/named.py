"""Frames of a statement's tables, of the requested version or time, with file pruning."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.log.history import to_ms
from slackwater.maintenance.clone import CloneResult
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.catalog.resolve import LakeName, ResolvedTable, path_in_parts, require, resolve
from slackwater.spark.catalog.session_catalog import SPARK_CATALOG, plain_sql
from slackwater.spark.history.system_time import SystemTimeRelation
from slackwater.spark.session.reader_options import split_path
from slackwater.spark.session.settings import session_zone
from slackwater.spark.storage.stores import table_at
from slackwater.spark.table.table import DeltaTable
from slackwater.sql.time_travel import AT, BETWEEN, FROM_TO, SYSTEM_TIME, TIMESTAMP, VERSION, Travel


@dataclass(frozen=True)
class NamedTable:
    """A Delta table in a statement, with its resolved name."""

    place: ResolvedTable
    table: DeltaTable

    @property
    def qualified(self) -> list[tuple[str, ...]]:
        """The table's names of several parts."""
        found = [self.place.parts]
        if self.place.entry is not None:
            found += [self.place.entry.parts, (SPARK_CATALOG, *self.place.entry.parts)]
        elif self.place.in_lake is not None:
            found.append((self.place.in_lake.attached, *self.place.in_lake.name.split(".")))
        return [name for name in found if len(name) > 1]

    @property
    def alias(self) -> str:
        """The qualifier of the table's columns."""
        return self.place.parts[-1]


def named_table(spark: SparkSession, parts: Sequence[str]) -> NamedTable | None:
    """Return the Delta table of the name, None for another object. Raises TableNotFound."""
    place = resolve(spark, parts)
    return None if place is None else NamedTable(place, table_of(spark, place))


def required_table(spark: SparkSession, parts: Sequence[str]) -> NamedTable:
    """Return the result of `named_table`. Raises TableNotFound also for another object."""
    place = require(spark, parts)
    return NamedTable(place, table_of(spark, place))


def table_of(spark: SparkSession, place: ResolvedTable) -> DeltaTable:
    """Return the table at a location, unchecked. Later operations raise TableNotFound if there is no table."""
    if place.in_lake is not None:
        table: DeltaTable = place.in_lake.table()
        return table
    return DeltaTable(spark, table_at(spark, place.location))


def frame_of(spark: SparkSession, named: NamedTable, travel: Travel | None = None) -> DataFrame:
    """Return the rows of the table at `travel`. `where` on the frame reads only files with possible matches.

    Raises InvalidArgument for an invalid version or time, and the errors of every read.
    """
    if travel is not None and travel.kind in (FROM_TO, BETWEEN):
        return _between(spark, named, travel)
    if travel is not None and travel.kind == SYSTEM_TIME and isinstance(named.place.in_lake, LakeName):
        # The owner records this read, so that no later transaction gets an earlier timestamp.
        name = named.place.in_lake
        frame: DataFrame = name.lake.as_of(moment(spark, travel.texts[0])).table(name.name).toDF()
        return frame
    if path_in_parts(named.place.parts) is not None:
        return _path_frame(spark, named.place, travel)
    return named.table.toDF(**({} if travel is None else travel_options(spark, travel)))


def _path_frame(spark: SparkSession, place: ResolvedTable, travel: Travel | None) -> DataFrame:
    """Return the rows of the table at a path, with an optional version: ``delta.`/path@v3` ``."""
    reader = spark.read.format("delta")
    for key, value in ({} if travel is None else travel_options(spark, travel)).items():
        reader = reader.option(key, value)
    return reader.load(place.location)


def travel_options(spark: SparkSession, travel: Travel) -> dict[str, Any]:
    """Return the read options of `travel`: `versionAsOf`, or `timestampAsOf` in a text with its zone."""
    if travel.kind == AT:
        _, named = split_path(f"x@{travel.texts[0].lower()}", session_zone(spark))
        if named.version is not None:
            return {"versionAsOf": named.version}
        return {"timestampAsOf": _utc(spark, f"timestamp_millis({named.timestamp_ms})")}
    (text,) = travel.texts
    if travel.kind == VERSION:
        return {"versionAsOf": text.strip().strip("'\"")}
    if travel.kind == SYSTEM_TIME:
        return {"timestampAsOf": moment(spark, text), "allowAfterLastCommit": "true"}
    return {"timestampAsOf": moment(spark, text)}


def _between(spark: SparkSession, named: NamedTable, travel: Travel) -> DataFrame:
    since, until = (moment(spark, text) for text in travel.texts)
    versions: SystemTimeRelation = named.table.system_time()
    return versions.from_to(since, until) if travel.kind == FROM_TO else versions.between(since, until)


def moment(spark: SparkSession, text: str) -> str:
    """Return the time of an SQL expression in a text with its zone. Raises InvalidArgument for an invalid time."""
    return _utc(spark, f"CAST(({text}) AS TIMESTAMP_LTZ)", text)


def _utc(spark: SparkSession, expression: str, said: str = "") -> str:
    micros = plain_sql(spark, f"SELECT unix_micros({expression})").collect()[0][0]
    if micros is None:
        raise InvalidArgument(
            f"{said or expression} is NULL, not a time for time travel. Use an expression with a value",
            error_class="DELTA_TIMESTAMP_INVALID",
        )
    return utc_text(micros)


def utc_text(micros: int) -> str:
    """Return microseconds since the epoch as a text with its zone."""
    return (dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(microseconds=micros)).isoformat()


def zoned(travel: Travel, zone: str, with_zone: Callable[[str], str]) -> Travel:
    """Return `travel` of a text in the time zone `zone`. `with_zone` adds the zone to an SQL expression of a time."""
    if travel.kind == AT:
        _, named = split_path(f"x@{travel.texts[0].lower()}", zone)
        return travel if named.version is not None else Travel(TIMESTAMP, (f"timestamp_millis({named.timestamp_ms})",))
    return travel if travel.kind == VERSION else Travel(travel.kind, tuple(map(with_zone, travel.texts)))


_OTHER_FORMATS = ("parquet", "iceberg")


@dataclass(frozen=True)
class CloneSource:
    """The source of a SHALLOW CLONE: `snapshot`, of the table `table`."""

    table: DeltaTable
    snapshot: Snapshot

    def clone(self, place: str, replace: bool, properties: Mapping[str, str]) -> CloneResult:
        """Create the clone at `place`, with additional `properties`. `replace` allows an existing table."""
        return self.table._cloned(self.snapshot, place, True, replace, properties)[1]


def clone_source(spark: SparkSession, parts: Sequence[str], travel: Travel | None) -> CloneSource:
    """Return the table of the name at `travel`.

    Raises TableNotFound, and UnsupportedFeature for a directory of another format.
    """
    if len(parts) == 2 and parts[0].lower() in _OTHER_FORMATS and named_table(spark, parts) is None:
        raise UnsupportedFeature(
            f"{parts[0]}.`{parts[1]}`: only Delta tables can be cloned. Convert a directory of Parquet files with "
            "CONVERT TO DELTA, or copy other formats with CREATE TABLE … AS SELECT",
            error_class="DELTA_CLONE_UNSUPPORTED_SOURCE",
        )
    source = required_table(spark, parts).table
    options = {} if travel is None else travel_options(spark, travel)
    snapshot = source._snapshot_to_clone(
        version=None if "versionAsOf" not in options else int(options["versionAsOf"]),
        timestamp=None if "timestampAsOf" not in options else to_ms(options["timestampAsOf"]),
    )
    return CloneSource(source, snapshot)

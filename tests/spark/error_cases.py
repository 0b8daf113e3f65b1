"""Calls that are refused, one for each kind of refusal that users meet, and what delta-spark is told for the same.

Each begins with an empty place; `arrange` makes the table, `refused` raises. `theirs` is SQL on the same table, with
`{t}` for its name, or the options of a read; None where delta-spark has no such call, or does not refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater import DeltaTable, IdentityGenerator, errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work = Callable[["SparkSession", str], Any]
CDF: dict[str, Any] = {"delta.enableChangeDataFeed": "true"}
MAPPED: dict[str, Any] = {"delta.columnMapping.mode": "name"}
FEED = {"readChangeFeed": "true"}


@dataclass(frozen=True)
class Refusal:
    """`error_class` is ours, and delta-spark's where `theirs` is given and `gap` is None: else theirs is `gap`."""

    name: str
    arrange: Work
    refused: Work
    kind: type[errors.SlackwaterError]
    error_class: str
    caught_as: str = "AnalysisException"
    theirs: str | Mapping[str, str] | None = None
    gap: str | None = None


def nothing(spark: SparkSession, path: str) -> None:
    """No table at all."""


def of(columns: str = "id BIGINT, s STRING, p INT", rows: int = 4, by: str = "", **properties: str) -> Work:
    """A table of these columns, partitioned `by` one; with `rows` of them, numbered from 0 by the column `id`."""

    def make(spark: SparkSession, path: str) -> None:
        builder = DeltaTable.create(spark).location(path).addColumns(spark.createDataFrame([], columns).schema)
        for key, value in properties.items():
            builder = builder.property(key, value)
        (builder.partitionedBy(by) if by else builder).execute()
        if rows:
            spark.range(rows).selectExpr("id").write.format("delta").mode("append").save(path)

    return make


def made(build: Callable[[Any], Any], **properties: str) -> Work:
    """What a table builder with a place makes."""

    def make(spark: SparkSession, path: str) -> None:
        builder = DeltaTable.create(spark).location(path)
        for key, value in properties.items():
            builder = builder.property(key, value)
        build(builder).execute()

    return make


def table(call: Callable[[Any], Any]) -> Work:
    """A call of a DeltaTable, which people may call wrongly: hence without its type."""
    return lambda spark, path: call(DeltaTable.forPath(spark, path))


def read(**options: str) -> Work:
    return lambda spark, path: spark.read.format("delta").options(**options).load(path).collect()


def write(select: str, mode: str = "append", by: str = "", **options: str) -> Work:
    def save(spark: SparkSession, path: str) -> None:
        frame: DataFrame = spark.range(1).selectExpr(*select.split(", "))
        writer = frame.write.format("delta").mode(mode).options(**options)
        (writer.partitionBy(by) if by else writer).save(path)

    return save


def merge(clauses: Callable[[Any], Any], twice: bool = False) -> Work:
    def run(spark: SparkSession, path: str) -> None:
        source = spark.range(2)
        source = source.union(source) if twice else source
        clauses(DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.id = s.id")).execute()

    return run


def both(first: Work, then: Work) -> Work:
    def run(spark: SparkSession, path: str) -> None:
        first(spark, path)
        then(spark, path)

    return run


def _one_file(spark: SparkSession, path: str) -> None:
    spark.range(9).coalesce(1).write.format("delta").mode("append").save(path)


CHECKED = both(of(), table(lambda t: t.addConstraint("small", "id < 9")))
GENERATED = made(lambda b: b.addColumn("id", "BIGINT").addColumn("g", "BIGINT", generatedAlwaysAs="id + 1"), **MAPPED)
IDENTITY = both(
    made(lambda b: b.addColumn("x", "BIGINT").addColumn("i", "BIGINT", generatedAlwaysAs=IdentityGenerator())),
    write("id AS x"),
)
VECTORS = both(
    of("id BIGINT", rows=0, **{"delta.enableDeletionVectors": "true"}),
    both(_one_file, table(lambda t: t.delete("id = 1"))),
)


ILLEGAL, UNSUPPORTED = "IllegalArgumentException", "UnsupportedOperationException"
BROKEN = "SparkRuntimeException"
REFUSALS = [
    Refusal(
        "no table", nothing, read(), errors.TableNotFound, "DELTA_TABLE_NOT_FOUND", theirs={}, gap="PATH_NOT_FOUND"
    ),
    Refusal(
        "no table to open",
        nothing,
        table(DeltaTable.toDF),
        errors.TableNotFound,
        "DELTA_MISSING_DELTA_TABLE",
    ),
    Refusal(
        "a later version",
        of(),
        read(versionAsOf="99"),
        errors.VersionNotFound,
        "DELTA_VERSION_NOT_FOUND",
        theirs={"versionAsOf": "99"},
    ),
    Refusal(
        "a version that is no number",
        of(),
        read(versionAsOf="x"),
        errors.InvalidArgument,
        "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE",
        ILLEGAL,
        theirs={"versionAsOf": "x"},
    ),
    Refusal(
        "a version and a time",
        of(),
        read(versionAsOf="0", timestampAsOf="2100-01-01"),
        errors.InvalidArgument,
        "DELTA_ONEOF_IN_TIMETRAVEL",
        ILLEGAL,
        theirs={"versionAsOf": "0", "timestampAsOf": "2100-01-01"},
    ),
    Refusal(
        "before the first commit",
        of(),
        read(timestampAsOf="2001-01-01"),
        errors.TimestampOutOfRange,
        "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
        theirs={"timestampAsOf": "2001-01-01"},
    ),
    Refusal(
        "after the last commit",
        of(),
        read(timestampAsOf="2100-01-01"),
        errors.TimestampOutOfRange,
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        theirs={"timestampAsOf": "2100-01-01"},
    ),
    Refusal(
        "no time",
        of(),
        read(timestampAsOf="soon"),
        errors.InvalidArgument,
        "DELTA_TIMESTAMP_INVALID",
        theirs={"timestampAsOf": "soon"},
    ),
    Refusal(
        "changes that were not recorded",
        of(),
        read(**FEED, startingVersion="0"),
        errors.ChangeFeedNotEnabled,
        "DELTA_MISSING_CHANGE_DATA",
        theirs={**FEED, "startingVersion": "0"},
    ),
    Refusal(
        "changes from nowhere",
        of(**CDF),
        read(**FEED),
        errors.InvalidArgument,
        "DELTA_NO_START_FOR_CDC_READ",
        theirs=FEED,
    ),
    Refusal(
        "changes of the future",
        of(**CDF),
        read(**FEED, startingVersion="99"),
        errors.VersionNotFound,
        "DELTA_CDC_START_VERSION_AFTER_LATEST",
        ILLEGAL,
        theirs={**FEED, "startingVersion": "99"},
    ),
    Refusal(
        "changes that end before they start",
        of(**CDF),
        read(**FEED, startingVersion="1", endingVersion="0"),
        errors.InvalidArgument,
        "DELTA_INVALID_CDC_RANGE",
        ILLEGAL,
        theirs={**FEED, "startingVersion": "1", "endingVersion": "0"},
    ),
    Refusal("a table that is there", of(), write("id", "error"), errors.TableAlreadyExists, "DELTA_PATH_EXISTS"),
    Refusal("a new column", of(), write("id, 1 AS z"), errors.InvalidArgument, "DELTA_METADATA_MISMATCH"),
    Refusal("another type", of(), write("array(id) AS id"), errors.InvalidArgument, "DELTA_FAILED_TO_MERGE_FIELDS"),
    Refusal("other partitions", of(), write("id", by="id"), errors.InvalidArgument, "DELTA_METADATA_MISMATCH"),
    Refusal(
        "a name with a space",
        nothing,
        write("id AS `a b`"),
        errors.InvalidArgument,
        "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
        theirs="CREATE TABLE {t} (`a b` INT) USING delta",
    ),
    Refusal(
        "an option that is no boolean",
        of(),
        write("id", mergeSchema="perhaps"),
        errors.InvalidArgument,
        "DELTA_ILLEGAL_OPTION",
        ILLEGAL,
    ),
    Refusal(
        "half of an idempotent write",
        of(),
        write("id", txnAppId="a"),
        errors.InvalidArgument,
        "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
        ILLEGAL,
    ),
    Refusal(
        "rows outside of replaceWhere",
        of(),
        write("id, 's' AS s, 1 AS p", "overwrite", replaceWhere="p = 0"),
        errors.InvariantViolationException,
        "DELTA_REPLACE_WHERE_MISMATCH",
    ),
    Refusal(
        "a null",
        of("id BIGINT NOT NULL", rows=0),
        write("CAST(NULL AS BIGINT) AS id"),
        errors.InvariantViolationException,
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        BROKEN,
        theirs="INSERT INTO {t} VALUES (NULL)",
    ),
    Refusal(
        "a row that breaks a constraint",
        CHECKED,
        write("id + 50 AS id, 's' AS s, 1 AS p"),
        errors.InvariantViolationException,
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        BROKEN,
        theirs="INSERT INTO {t} VALUES (50, 's', 1)",
    ),
    Refusal(
        "a row that breaks a generated column",
        GENERATED,
        write("id, id AS g"),
        errors.InvariantViolationException,
        "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        BROKEN,
        theirs="INSERT INTO {t} VALUES (1, 1)",
    ),
    Refusal(
        "a constraint that rows break",
        of(),
        table(lambda t: t.addConstraint("c", "id < 2")),
        errors.InvariantViolationException,
        "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
        theirs="ALTER TABLE {t} ADD CONSTRAINT c CHECK (id < 2)",
    ),
    Refusal(
        "NOT NULL where there are nulls",
        of(),
        table(lambda t: t.setColumnNullable("s", False)),
        errors.InvariantViolationException,
        "DELTA_NEW_NOT_NULL_VIOLATION",
    ),
    Refusal(
        "a constraint twice",
        CHECKED,
        table(lambda t: t.addConstraint("small", "id < 99")),
        errors.InvalidArgument,
        "DELTA_CONSTRAINT_ALREADY_EXISTS",
        theirs="ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 99)",
    ),
    Refusal(
        "a constraint that is no condition",
        of(),
        table(lambda t: t.addConstraint("c", "id")),
        errors.InvalidArgument,
        "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT",
        theirs="ALTER TABLE {t} ADD CONSTRAINT c CHECK (id)",
    ),
    Refusal(
        "no constraint to drop",
        of(),
        table(lambda t: t.dropConstraint("c")),
        errors.InvalidArgument,
        "DELTA_CONSTRAINT_DOES_NOT_EXIST",
        theirs="ALTER TABLE {t} DROP CONSTRAINT c",
    ),
]

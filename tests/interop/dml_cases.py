"""Changes of rows that any engine can make, and the tables of the catalogue on which they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from .feature import Column, Feature, values
from .features import FEATURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.spark.dml.merge.builder import DeltaMergeBuilder


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE of the rows for which `where` is true."""

    where: str

    def run(self, spark: SparkSession, path: str) -> None:
        """Make the change with our engine."""
        from slackwater import DeltaTable

        DeltaTable.forPath(spark, path).delete(self.where)

    def sql(self, path: str) -> str:
        """The statement with which delta-spark makes it."""
        return f"DELETE FROM delta.`{path}` WHERE {self.where}"


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE of the rows for which `where` is true; `to` maps columns to SQL expressions."""

    where: str
    to: Mapping[str, str]

    def run(self, spark: SparkSession, path: str) -> None:
        """Make the change with our engine."""
        from slackwater import DeltaTable

        DeltaTable.forPath(spark, path).update(self.where, dict(self.to))

    def sql(self, path: str) -> str:
        """The statement with which delta-spark makes it."""
        return f"UPDATE delta.`{path}` SET {_assigned(self.to)} WHERE {self.where}"


@dataclass(frozen=True, slots=True)
class When:
    """A clause of a MERGE; `to` maps columns to expressions, None is `*`, and `delete` stands for none of both."""

    kind: str
    where: str | None = None
    to: Mapping[str, str] | None = None
    delete: bool = False

    def on(self, builder: DeltaMergeBuilder) -> DeltaMergeBuilder:
        """The builder with the clause."""
        to = None if self.to is None else dict(self.to)
        match self.kind:
            case "MATCHED" if self.delete:
                return builder.whenMatchedDelete(self.where)
            case "MATCHED" if to is None:
                return builder.whenMatchedUpdateAll(self.where)
            case "MATCHED":
                return builder.whenMatchedUpdate(self.where, to)
            case "NOT MATCHED" if to is None:
                return builder.whenNotMatchedInsertAll(self.where)
            case "NOT MATCHED":
                return builder.whenNotMatchedInsert(self.where, to)
            case "NOT MATCHED BY SOURCE" if self.delete:
                return builder.whenNotMatchedBySourceDelete(self.where)
            case "NOT MATCHED BY SOURCE":
                return builder.whenNotMatchedBySourceUpdate(self.where, to)
        raise AssertionError(self.kind)

    def sql(self) -> str:
        """As it stands in a statement."""
        if self.delete:
            done = "DELETE"
        elif self.kind == "NOT MATCHED":
            listed = self.to and f"({', '.join(self.to)}) VALUES ({', '.join(self.to.values())})"
            done = f"INSERT {listed or '*'}"
        else:
            done = f"UPDATE SET {'*' if self.to is None else _assigned(self.to)}"
        return f"WHEN {self.kind}{f' AND {self.where}' if self.where else ''} THEN {done}"


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE of the rows of `source`, called s, into the table, called t."""

    source: str
    on: str
    clauses: Sequence[When]

    def run(self, spark: SparkSession, path: str) -> None:
        """Make the change with our engine."""
        from slackwater import DeltaTable

        builder = DeltaTable.forPath(spark, path).alias("t").merge(spark.sql(self.source).alias("s"), self.on)
        for clause in self.clauses:
            builder = clause.on(builder)
        builder.execute()

    def sql(self, path: str) -> str:
        """The statement with which delta-spark makes it."""
        clauses = " ".join(clause.sql() for clause in self.clauses)
        return f"MERGE INTO delta.`{path}` AS t USING ({self.source}) AS s ON {self.on} {clauses}"


Change = Delete | Update | Merge


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows that a table has besides its feature's first batch, and three rounds of changes, whoever makes each.

    `holds`: the rows after the first round, without the columns that vary.
    """

    rows: str | None
    first: Sequence[Change]
    holds: Sequence[Sequence[Any]]
    second: Sequence[Change]
    third: Sequence[Change]


@dataclass(frozen=True, slots=True)
class DmlCase:
    """A table on which rows are changed.

    `unreadable`: engines that cannot read it after our changes, with the reason. `changes_unreadable`: the same of
    its change feed in deltalake. `upkeep`: statements that delta-spark runs after its own round, `{t}` for the table.
    `is_variation`: for long runs, as other cases have its features among more, or its rows are changed as theirs are.
    """

    feature: Feature
    plan: Plan
    unreadable: Mapping[str, str] = field(default_factory=dict)
    changes_unreadable: str | None = None
    upkeep: Sequence[str] = ()
    is_variation: bool = False

    @property
    def name(self) -> str:
        """The feature's."""
        return self.feature.name

    @property
    def has_feed(self) -> bool:
        """Whether every change is in a change feed."""
        return self.feature.properties.get("delta.enableChangeDataFeed") == "true"

    @property
    def has_vectors(self) -> bool:
        """Whether rows are deleted by deletion vectors."""
        return self.feature.properties.get("delta.enableDeletionVectors") == "true"

    @property
    def has_row_ids(self) -> bool:
        """Whether rows are tracked."""
        return self.feature.properties.get("delta.enableRowTracking") == "true"


def _assigned(to: Mapping[str, str]) -> str:
    return ", ".join(f"{column} = {value}" for column, value in to.items())


def _plan(
    key: str = "id", name: str = "name", part: str | None = None, *, star: bool = False, has_two: bool = True
) -> Plan:
    """The plan of a table of a key, a name and perhaps a partition: every kind of change, rows that move included.

    `star`: the MERGE says `*` where it can. `has_two`: the first batch of the feature has a row of the key 2.
    """
    columns = [key, name, *([part] if part else [])]

    def cells(*row: str) -> str:
        return ", ".join(row[: len(columns)])

    def to(source: str = "s.") -> dict[str, str]:
        return {column: source + column for column in columns}

    def moved(value: str) -> dict[str, str]:
        return {part: value} if part else {}

    given = ", ".join(columns)
    numbers = f"SELECT id AS {key}, concat('n', id) AS {name}{f', CAST(id % 2 AS INT) AS {part}' if part else ''}"
    source = values(
        given,
        *(cells(f"{i}L", f"'m{i}'", "8") for i in (13, 15, 30)),
        *(cells(f"{i}L", "CAST(NULL AS STRING)", "8") for i in (14, 31)),
    )
    more = values(given, *(cells(f"{i}L", f"'t{i}'", "0") for i in (15, 40)))
    last = values(given, *(cells(f"{i}L", f"'u{i}'", "1") for i in (40, 41)))
    holds = (
        *((2, "none!", 7), (12, "n12!", 7), (13, "m13", 8), (15, "m15", 8)),
        *((16, "left", 9), (17, "n17", 1), (30, "m30", 8)),
    )
    return Plan(
        rows=f"{numbers} FROM range(10, 20, 1, 1)",
        first=(
            Delete(f"{key} IN (1, 10, 11)"),
            Update(f"{key} IN (2, 12, 13)", {name: f"concat(coalesce({name}, 'none'), '!')", **moved("7")}),
            Merge(
                source,
                f"t.{key} = s.{key}",
                (
                    When("MATCHED", f"s.{name} IS NULL", delete=True),
                    When("MATCHED", to=None if star else to()),
                    When("NOT MATCHED", f"s.{name} IS NOT NULL", to=None if star else to()),
                    When("NOT MATCHED BY SOURCE", f"t.{key} = 16", to={name: "'left'", **moved("9")}),
                    When("NOT MATCHED BY SOURCE", f"t.{key} > 17", delete=True),
                ),
            ),
        ),
        holds=[row[: len(columns)] for row in holds if has_two or row[0] != 2],
        second=(
            Delete(f"{key} = 12"),
            Update(f"{key} IN (13, 17)", {name: f"upper({name})", **moved("6")}),
            Merge(
                more,
                f"t.{key} = s.{key}",
                (
                    When("MATCHED", to=to()),
                    When("NOT MATCHED", to=to()),
                    When("NOT MATCHED BY SOURCE", f"t.{key} = 2", delete=True),
                ),
            ),
        ),
        third=(
            Delete(f"{key} = 13"),
            Update(f"{key} = 15", {name: "'third'", **moved("5")}),
            Merge(
                last,
                f"t.{key} = s.{key}",
                (When("MATCHED", to={name: f"s.{name}"}), When("NOT MATCHED", to=to())),
            ),
        ),
    )


def _named(name: str) -> Feature:
    return next(feature for feature in FEATURES if feature.name == name)


_ALL = _named("all types")
_ALL_TYPES = Plan(
    rows=_ALL.batches[1].query,
    first=(
        Delete("`ts` > TIMESTAMP'2024-01-01 00:00:00Z' AND `d5` = 999.99 AND `bi` = X'00ff'"),
        Update(
            "`by` IS NULL",
            {"st": "'set'", "rec": "named_struct('x', 7, 'y', named_struct('z', 'w'))", "map": "map('k', 0.5D)"},
        ),
        Merge(
            f"{_ALL.batches[0].query} UNION ALL {_ALL.batches[1].query}",
            "t.`by` <=> s.`by` AND t.`d38` = s.`d38`",
            (
                When("MATCHED"),
                When("NOT MATCHED", "s.`by` IS NOT NULL"),
                When("NOT MATCHED BY SOURCE", to={"nt": "5", "arr": "array(1, NULL)", "da": "DATE'1582-10-04'"}),
            ),
        ),
    ),
    holds=(
        *_ALL.batches[0].holds,
        (
            *(None, None, 5, None, None, None, None, "set", None, date(1582, 10, 4), None, None, None),
            *({"x": 7, "y": {"z": "w"}}, [1, None], [("k", 0.5)]),
        ),
    ),
    second=(Update("`by` = 127", {"rec.y.z": "'theirs'", "fl": "-1.5"}), Delete("isnan(`do`)")),
    third=(Update("`by` = -128", {"rec.y.z": "'ours'", "d38": "d38 + 1"}), Delete("`by` IS NULL")),
)

_PARTITIONED = _named("partition values")
_PARTITION_VALUES = Plan(
    rows=_PARTITIONED.batches[1].query,
    first=(
        Delete("p_string = 'a/b=c %é'"),
        Update("id = 2", {"p_string": "'x y/%25'", "p_date": "DATE'1582-10-04'", "p_bool": "false"}),
        Merge(
            f"{_PARTITIONED.batches[2].query} UNION ALL {_PARTITIONED.batches[0].query}",
            "t.id = s.id",
            (
                When("MATCHED"),
                When("NOT MATCHED"),
                When("NOT MATCHED BY SOURCE", to={"p_string": "''", "p_long": "NULL"}),
            ),
        ),
    ),
    holds=(
        *_PARTITIONED.batches[0].holds,
        *_PARTITIONED.batches[2].holds,
        (3, 0, 0, 0, None, False, date(9999, 12, 31), None),
    ),
    second=(Update("id = 4", {"p_string": "'ü?'", "p_byte": "-1"}), Delete("p_string IS NULL AND id = 3")),
    third=(Update("id IN (2, 4)", {"p_string": "'%2F'"}), Delete("p_bool")),
)

_TIMES = Plan(
    rows=_named("timestamps without a zone").batches[1].query,
    first=(
        Delete("at = TIMESTAMP_NTZ'2024-02-29 23:59:59.999999'"),
        Update("id = 2", {"at": "at + INTERVAL '1' MICROSECOND"}),
        Merge(
            values("id, at", "2, CAST(NULL AS TIMESTAMP_NTZ)", "3, TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'"),
            "t.id = s.id",
            (When("MATCHED", "s.at IS NOT NULL"), When("NOT MATCHED")),
        ),
    ),
    holds=((2, datetime(1, 1, 1, 0, 0, 0, 1)), (3, datetime(1969, 12, 31, 23, 59, 59, 999999))),
    second=(Update("id = 3", {"at": "NULL"}),),
    third=(Delete("at IS NULL"),),
)

_GENERATED = Plan(
    rows=_named("generatedColumns").batches[1].query,
    first=(
        Update("id = 1", {"day": "DATE'1980-05-06'", "id": "10"}),
        Merge(
            values("id, day", "2L, CAST(NULL AS DATE)", "10L, DATE'2000-01-01'", "11L, DATE'2001-02-03'"),
            "t.id = s.id",
            (
                When("MATCHED", "s.day IS NULL", delete=True),
                When("MATCHED", to={"day": "s.day"}),
                When("NOT MATCHED", to={"id": "s.id", "day": "s.day"}),
            ),
        ),
        Update("year = 2001", {"id": "id + 1"}),
    ),
    holds=((10, date(2000, 1, 1), 2000, 20), (12, date(2001, 2, 3), 2001, 24)),
    second=(Update("id = 12", {"day": "DATE'1970-01-01'"}),),
    third=(Update("year = 1970", {"day": "NULL"}), Delete("twice = 20")),
)

_DEFAULTS = Plan(
    rows="SELECT id, concat('n', id) AS name, CAST(id AS INT) AS count FROM range(10, 14, 1, 1)",
    first=(
        Delete("id IN (1, 10)"),
        Update("id = 12", {"name": "'two'", "count": "count + 1"}),
        Merge(
            "SELECT id FROM range(13, 15)",
            "t.id = s.id",
            (
                When("MATCHED", to={"count": "99"}),
                When("NOT MATCHED", to={"id": "s.id"}),
                When("NOT MATCHED BY SOURCE", "t.id = 11", delete=True),
            ),
        ),
    ),
    holds=((12, "two", 13), (13, "n13", 99), (14, "none", 7)),
    second=(Delete("id = 12"), Update("id = 14", {"name": "'four'"})),
    third=(Update("count = 7", {"count": "8"}), Delete("id = 13")),
)

_IDENTITIES = Plan(
    rows="SELECT concat('n', id) AS name FROM range(0, 4, 1, 1)",
    first=(
        Delete("name IN ('a', 'n0')"),
        Update("name = 'n1'", {"name": "'m1'"}),
        Merge(
            values("name, new", "'n2', 'm2'", "'n9', 'm9'"),
            "t.name = s.name",
            (
                When("MATCHED", to={"name": "s.new"}),
                When("NOT MATCHED", to={"name": "s.new"}),
                When("NOT MATCHED BY SOURCE", "t.name = 'n3'", delete=True),
            ),
        ),
    ),
    holds=(("b",), ("m1",), ("m2",), ("m9",)),
    second=(
        Update("name = 'b'", {"name": "'c'"}),
        Merge("SELECT 'their' AS name", "t.name = s.name", (When("NOT MATCHED", to={"name": "s.name"}),)),
    ),
    third=(Merge("SELECT 'our' AS name", "t.name = s.name", (When("NOT MATCHED", to={"name": "s.name"}),)),),
)

_LISTS = _named("icebergCompatV2").batches
_NESTED = Plan(
    rows=f"{_LISTS[1].query} UNION ALL {_LISTS[2].query}",
    first=(
        Delete("id = 1"),
        Update("id = 2", {"list": "array(8, NULL)", "part": "3"}),
        Merge(
            values("id, list, map, part", "3L, array(9), map('x', array(1)), 3", "4L, array(10), map('y', NULL), 4"),
            "t.id = s.id",
            (When("MATCHED"), When("NOT MATCHED"), When("NOT MATCHED BY SOURCE", to={"map": "map()"})),
        ),
    ),
    holds=((2, [8, None], [], 3), (3, [9], [("x", [1])], 3), (4, [10], [("y", None)], 4)),
    second=(Update("id = 3", {"list": "array(11)", "part": "5"}), Delete("id = 2")),
    third=(Update("id = 4", {"map": "map('z', array(3))"}), Delete("part = 5")),
)

_TWO = (Column("id", "BIGINT"), Column("name", "STRING"))
_THREE = (*_TWO, Column("part", "INT"))
_BATCHES = _named("partitioned").batches
_FEED_OF_MAPPED = Feature(
    "change feed of mapped columns",
    _THREE,
    _BATCHES,
    properties={"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"},
    partitioned_by=("part",),
    unreadable=_named("columnMapping name").unreadable,
)
_VECTORS_AND_ALL = Feature(
    "deletion vectors in a change feed of mapped, tracked, partitioned rows",
    _THREE,
    _BATCHES,
    properties={
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "delta.columnMapping.mode": "id",
        "delta.checkpointInterval": "2",
    },
    partitioned_by=("part",),
    check=_named("rowTracking").check,
    unreadable=_named("columnMapping id").unreadable,
)
_FEED_OF_VECTORS = Feature(
    "deletion vectors in a change feed",
    _TWO,
    _named("plain").batches,
    properties={"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
    unreadable=_named("deletionVectors").unreadable,
)
_FEED_OF_PARTITIONS = Feature(
    "change feed of partitions",
    _THREE,
    _BATCHES,
    properties={"delta.enableChangeDataFeed": "true"},
    partitioned_by=("part",),
)

_ODD = _plan("`the id`", "`a.b=c,d`", "`part;1`")
_MANY = _plan("`the id`")
# The third column is generated: one more than the first.
_MANY_HELD = replace(_MANY, holds=[(*row, row[0] + 1) for row in _MANY.holds])
_NO_MAPPED_CHANGES = "column mapping is not known to its change feed"
_OPTIMIZE = ("OPTIMIZE {t}",)
_PURGE = ("REORG TABLE {t} APPLY (PURGE)", "OPTIMIZE {t}")

DML_CASES: tuple[DmlCase, ...] = (
    DmlCase(_named("plain"), _plan(star=True), upkeep=_OPTIMIZE),
    DmlCase(_named("partitioned"), _plan(part="part", star=True), upkeep=_OPTIMIZE, is_variation=True),
    DmlCase(_ALL, _ALL_TYPES),
    DmlCase(_PARTITIONED, _PARTITION_VALUES),
    DmlCase(_named("timestamps without a zone"), _TIMES),
    DmlCase(_named("checkConstraints"), _plan(), is_variation=True),
    DmlCase(_named("generatedColumns"), _GENERATED),
    DmlCase(_named("allowColumnDefaults"), _DEFAULTS),
    DmlCase(_named("identityColumns"), _IDENTITIES),
    DmlCase(_named("columnMapping name"), _ODD, is_variation=True),
    DmlCase(_named("columnMapping id"), _ODD),
    DmlCase(_named("rowTracking"), _plan(), upkeep=_OPTIMIZE),
    DmlCase(_named("inCommitTimestamp"), _plan(), is_variation=True),
    DmlCase(_named("clustering"), _plan(), upkeep=("OPTIMIZE {t} FULL",)),
    DmlCase(_named("icebergCompatV1"), _plan(part="part", has_two=False), is_variation=True),
    DmlCase(_named("icebergCompatV2"), _NESTED),
    DmlCase(_named("changeDataFeed"), _plan(), upkeep=_OPTIMIZE, is_variation=True),
    DmlCase(_FEED_OF_PARTITIONS, _plan(part="part"), upkeep=_OPTIMIZE),
    DmlCase(_FEED_OF_MAPPED, _plan(part="part"), changes_unreadable=_NO_MAPPED_CHANGES),
    DmlCase(_named("deletionVectors"), _plan(), upkeep=_PURGE, is_variation=True),
    DmlCase(_FEED_OF_VECTORS, _plan()),
    DmlCase(_VECTORS_AND_ALL, _plan(part="part"), changes_unreadable=_NO_MAPPED_CHANGES, upkeep=_PURGE),
    DmlCase(_named("checkpoints with struct statistics"), _plan(part="part", has_two=False), is_variation=True),
    DmlCase(_named("v2Checkpoint"), _plan(), is_variation=True),
    DmlCase(_named("many features at once"), _MANY_HELD, changes_unreadable=_NO_MAPPED_CHANGES, upkeep=_PURGE),
)

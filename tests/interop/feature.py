"""What a feature of the catalogue is: a table described once, made by our writer or by delta-spark's SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .log_checks import Commits


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `identity` is its start and step, `default` and `generated` are SQL expressions."""

    name: str
    type: str
    nullable: bool = True
    generated: str | None = None
    identity: tuple[int, int] | None = None
    by_default: bool = False
    default: str | None = None
    comment: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a DataFrame alone says all of it."""
        return self.nullable and not (self.generated or self.identity or self.default or self.comment)

    def sql(self) -> str:
        """As it stands in CREATE TABLE."""
        parts = [f"`{self.name}`", self.type]
        if not self.nullable:
            parts.append("NOT NULL")
        if self.generated is not None:
            parts.append(f"GENERATED ALWAYS AS ({self.generated})")
        if self.identity is not None:
            start, step = self.identity
            how = "BY DEFAULT" if self.by_default else "ALWAYS"
            parts.append(f"GENERATED {how} AS IDENTITY (START WITH {start} INCREMENT BY {step})")
        if self.default is not None:
            parts.append(f"DEFAULT {self.default}")
        if self.comment is not None:
            parts.append(f"COMMENT '{self.comment}'")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows to append: a query that any Spark understands, and what the table holds of them, columns in table order."""

    query: str
    holds: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, given: str, rows: Mapping[str, Sequence[Any]]) -> Batch:
        """Rows for the columns `given`, each as SQL literals of the right types, and as the table holds it."""
        return cls(values(given, *rows), list(rows.values()))


def values(given: str, *rows: str) -> str:
    """A query of rows for the columns `given`, each as SQL literals of the right types."""
    listed = ", ".join(f"({row})" for row in rows)
    return f"SELECT * FROM VALUES {listed} AS t({given})"


@dataclass(frozen=True, slots=True)
class Refused:
    """A query whose rows may not be appended, and the error class with which delta-spark says so."""

    query: str
    condition: str


@dataclass(frozen=True, slots=True)
class Feature:
    """A table that has a feature, in full.

    `batches`: the first is written when the table is made, the others after. `varies`: columns whose values are each
    writer's own. `unreadable`: engines that cannot read it, with the reason. `refused`: rows that the table's metadata
    forbids. `refused_statements`: SQL that it forbids, `{t}` for the table, with the error class. `check`: what must
    hold of the log after any writers; `log_files`: patterns of files that our log must have. `gaps`: the tests that
    fail while something of ours is to be mended, with the reason; `create` where our writer cannot make the table.
    """

    name: str
    columns: Sequence[Column]
    batches: tuple[Batch, Batch, Batch]
    table_features: frozenset[str] = frozenset()
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    varies: tuple[str, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    refused: Sequence[Refused] = ()
    refused_statements: Sequence[Refused] = ()
    check: Callable[[Commits], None] | None = None
    log_files: Sequence[str] = ()
    gaps: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether `df.write` alone makes it: no property, no column that needs more than a name and a type."""
        return not self.properties and not self.clustered_by and all(column.is_plain for column in self.columns)

    @property
    def column_names(self) -> list[str]:
        """The columns that every writer fills alike."""
        return [column.name for column in self.columns if column.name not in self.varies]

    def held(self, batches: int) -> list[Sequence[Any]]:
        """The rows of the table after its first `batches`, without the columns in `varies`."""
        kept = [i for i, column in enumerate(self.columns) if column.name not in self.varies]
        return [[row[i] for i in kept] for batch in self.batches[:batches] for row in batch.holds]

    def create_ours(self, spark: SparkSession, path: str) -> None:
        """Make the table with our writer, with the first batch in it."""
        frame = spark.sql(self.batches[0].query)
        if self.is_plain:
            frame.write.format("delta").partitionBy(*self.partitioned_by).save(path)
            return
        self._build(spark, path)
        frame.write.format("delta").mode("append").save(path)

    def create_theirs_sql(self, path: str) -> str:
        """The statement with which delta-spark makes the table, empty."""
        columns = ", ".join(column.sql() for column in self.columns)
        text = f"CREATE TABLE delta.`{path}` ({columns}) USING delta"
        if self.partitioned_by:
            text += f" PARTITIONED BY ({', '.join(f'`{name}`' for name in self.partitioned_by)})"
        if self.clustered_by:
            text += f" CLUSTER BY ({', '.join(f'`{name}`' for name in self.clustered_by)})"
        if self.properties:
            properties = ", ".join(f"'{key}' = \"{value}\"" for key, value in self.properties.items())
            text += f" TBLPROPERTIES ({properties})"
        return text

    def _build(self, spark: SparkSession, path: str) -> None:
        from pyspark.sql.types import DataType, StructField, StructType

        from slackwater import DeltaTable

        builder = DeltaTable.create(spark).location(path)
        for column in self.columns:
            if column.default is not None:
                kind = DataType.fromDDL(column.type)
                metadata = {"CURRENT_DEFAULT": column.default}
                builder = builder.addColumns(StructType([StructField(column.name, kind, column.nullable, metadata)]))
                continue
            builder = builder.addColumn(
                column.name,
                column.type,
                nullable=column.nullable,
                generatedAlwaysAs=column.generated or (None if column.by_default else _generator(column)),
                generatedByDefaultAs=_generator(column) if column.by_default else None,
                comment=column.comment,
            )
        for key, value in self.properties.items():
            builder = builder.property(key, value)
        if self.partitioned_by:
            builder = builder.partitionedBy(*self.partitioned_by)
        if self.clustered_by:
            builder = builder.clusterBy(*self.clustered_by)
        builder.execute()


def _generator(column: Column) -> Any:
    if column.identity is None:
        return None
    from slackwater.spark.table.builder import IdentityGenerator

    return IdentityGenerator(*column.identity)

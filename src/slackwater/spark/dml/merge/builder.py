"""Builder of a MERGE with the methods of delta-spark's builder, returned by `DeltaTable.merge`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from slackwater.errors import InvalidArgument
from slackwater.spark.dml.assignments import Expression, validate_set_argument

if TYPE_CHECKING:
    from collections.abc import Callable

MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"
_NOT_LAST = {
    MATCHED: "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
    NOT_MATCHED: "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
    NOT_MATCHED_BY_SOURCE: "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
}
UPDATE, DELETE, INSERT = "UPDATE", "DELETE", "INSERT"


@dataclass(frozen=True)
class MergeClause:
    """A WHEN clause: the kind of rows, the action, and a `condition` on the rows (None: all rows).

    `assignments` None is the `*` form: every column gets the source's value of its name.
    """

    kind: str
    action: str
    condition: Expression | None = None
    assignments: Mapping[str, Expression] | None = None

    def __str__(self) -> str:
        return f"WHEN {self.kind} THEN {self.action}"


@dataclass(frozen=True)
class DeltaMergeBuilder:
    """A MERGE started by `DeltaTable.merge`. Every method returns a new builder; `execute` runs the MERGE.

    The first clause of a kind with a true condition applies to a row. Only the last clause of a kind may omit its
    condition. Conditions and values are Columns or SQL text. `when…` raises ValueError for a missing `set` or `values`,
    and TypeError for an argument of another type; `execute` checks everything else.

    >>> spark.createDataFrame([(1, "old"), (2, "old")], "id INT, v STRING").write.format("delta").save(path)
    >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
    >>> table = slackwater.DeltaTable.forPath(spark, path)
    >>> merge = table.alias("t").merge(news, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    >>> merge.execute().first().asDict()["num_affected_rows"]
    2
    >>> sorted((row.id, row.v) for row in table.toDF().collect())
    [(1, 'old'), (2, 'new'), (3, 'new')]
    """

    _run: Callable[[DeltaMergeBuilder], DataFrame]
    source: DataFrame
    condition: Expression
    clauses: tuple[MergeClause, ...] = ()
    evolves_schema: bool = field(default=False)

    def __repr__(self) -> str:
        clauses = "; ".join(map(str, self.clauses)) or "no clause yet"
        return f"<{type(self).__name__} ON {self.condition}: {clauses}; execute() runs it>"

    def whenMatchedUpdate(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,  # noqa: A002
    ) -> DeltaMergeBuilder:
        """Update target rows matched by a source row: `set` maps target columns to expressions over both rows.

        `condition`, over both rows, selects the rows; None: all. Keys of `set` are columns (`a`, `a.b` for fields of
        structs); the text `DEFAULT` is the column's default value.

        >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> done = merge.whenMatchedUpdate("t.v <> s.v", {"v": "concat(t.v, ', ', s.v)"}).execute()
        >>> sorted((row.id, row.v) for row in table.toDF().collect())
        [(1, 'a'), (2, 'b, new')]
        """
        validate_set_argument(set)
        return self._with(MATCHED, UPDATE, condition, set)

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Update every column of target rows matched by a source row to the source's column of its name.

        `condition`, over both rows, selects the rows; None: all.

        >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> merge.whenMatchedUpdateAll("t.v <> s.v")
        <DeltaMergeBuilder ON t.id = s.id: WHEN MATCHED THEN UPDATE; execute() runs it>
        """
        return self._with(MATCHED, UPDATE, condition)

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete target rows matched by a source row; `condition`, over both rows, selects the rows; None: all.

        >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> merge.whenMatchedDelete("s.v IS NULL").whenMatchedUpdateAll()
        <DeltaMergeBuilder ON t.id = s.id: WHEN MATCHED THEN DELETE; WHEN MATCHED THEN UPDATE; execute() runs it>
        """
        return self._with(MATCHED, DELETE, condition)

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Insert source rows that match no target row: `values` maps target columns to expressions over the source.

        `condition`, over the source row, selects the rows; None: all. Keys of `values` are whole columns. Other columns
        get their generated or default value, or null.

        >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> done = merge.whenNotMatchedInsert("s.id > 2", {"id": "s.id", "v": "upper(s.v)"}).execute()
        >>> sorted((row.id, row.v) for row in table.toDF().collect())
        [(1, 'a'), (2, 'b'), (3, 'NEW')]
        """
        validate_set_argument(values, "values")
        return self._with(NOT_MATCHED, INSERT, condition, values)

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Insert source rows that match no target row, each column from the source's column of its name.

        `condition`, over the source row, selects the rows; None: all.

        >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> merge.whenNotMatchedInsertAll("s.v IS NOT NULL")
        <DeltaMergeBuilder ON t.id = s.id: WHEN NOT MATCHED THEN INSERT; execute() runs it>
        """
        return self._with(NOT_MATCHED, INSERT, condition)

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,  # noqa: A002
    ) -> DeltaMergeBuilder:
        """Update target rows matched by no source row: `set` maps columns to expressions over the target row.

        `condition`, over the target row, selects the rows; None: all. For the keys of `set` see `whenMatchedUpdate`.

        >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> done = merge.whenNotMatchedBySourceUpdate("t.v = 'a'", {"v": "'gone'"}).execute()
        >>> sorted((row.id, row.v) for row in table.toDF().collect())
        [(1, 'gone'), (2, 'b')]
        """
        validate_set_argument(set)
        return self._with(NOT_MATCHED_BY_SOURCE, UPDATE, condition, set)

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete target rows matched by no source row; `condition`, over the target row, selects the rows; None: all.

        >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> merge.whenNotMatchedBySourceDelete("t.v = 'a'")
        <DeltaMergeBuilder ON t.id = s.id: WHEN NOT MATCHED BY SOURCE THEN DELETE; execute() runs it>
        """
        return self._with(NOT_MATCHED_BY_SOURCE, DELETE, condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add columns missing in the target from the source, if a clause writes them.

        >>> news = spark.createDataFrame([(3, "new", "note")], "id INT, v STRING, memo STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id").withSchemaEvolution()
        >>> merge.whenNotMatchedInsertAll().execute().first().num_inserted_rows, table.toDF().columns
        (1, ['id', 'v', 'memo'])
        """
        return replace(self, evolves_schema=True)

    def execute(self) -> DataFrame:
        """Run the MERGE; one row of `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`, `num_inserted_rows`.

        Returns no row if the session's application (`spark.databricks.delta.write.txnAppId`) already committed it. The
        table is unchanged after an error.

        Raises:
            InvalidArgument: If a clause, a condition or a value is invalid.
            MergeCardinalityViolation: If several source rows modify one target row.
            InvariantViolationException: If a row breaks a constraint.
            OperationNotAllowed: If the table is append-only and a clause updates or deletes rows.
            UnsupportedFeature: If the table or the MERGE needs an unsupported feature.
            DeltaConcurrentModificationException: If a concurrent commit conflicts; the message names the commit.

        >>> news = spark.createDataFrame([(2, "new"), (3, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> merge.whenMatchedDelete("s.v = 'new'").whenNotMatchedInsertAll().execute().first()
        Row(num_affected_rows=2, num_updated_rows=0, num_deleted_rows=1, num_inserted_rows=1)
        """
        if not self.clauses:
            raise InvalidArgument(
                "a MERGE needs at least one WHEN clause. Add whenMatched… or whenNotMatched…",
                error_class="DELTA_MERGE_MISSING_WHEN",
            )
        for kind in (MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE):
            self._require_order(kind)
        return self._run(self)

    def _require_order(self, kind: str) -> None:
        for clause in clauses_of(self, kind)[:-1]:
            if clause.condition is None:
                raise InvalidArgument(
                    f"{clause} has no condition, so the clauses after it never apply. Only the last WHEN {kind} clause "
                    "can omit its condition",
                    error_class=_NOT_LAST[kind],
                )

    def _with(
        self,
        kind: str,
        action: str,
        condition: Expression | None,
        assignments: Mapping[str, Expression] | None = None,
    ) -> DeltaMergeBuilder:
        require_condition(condition)
        clause = MergeClause(kind, action, condition, None if assignments is None else dict(assignments))
        return replace(self, clauses=(*self.clauses, clause))


def clauses_of(builder: DeltaMergeBuilder, kind: str) -> tuple[MergeClause, ...]:
    """Return the clauses of `builder` for one kind of rows, in their order."""
    return tuple(clause for clause in builder.clauses if clause.kind == kind)


def require_condition(condition: object) -> None:
    """Accept None, a str or a Column. Raises TypeError for other types, like delta-spark."""
    if condition is not None and not isinstance(condition, (str, Column)):
        raise TypeError(
            "'condition' must be a Spark SQL Column or a string (expression in SQL syntax), "
            f"found '{condition}' of type '{type(condition)}'"
        )

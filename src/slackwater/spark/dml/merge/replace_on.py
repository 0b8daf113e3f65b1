"""Overwrite of the table rows matched by the data. One commit removes the matched rows and adds all rows of the data.

Source: delta-spark's options `replaceUsing`, `replaceOn` and `targetAlias`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from slackwater.errors import InvalidArgument
from slackwater.log.table import Table
from slackwater.spark.dml.dml_command import INSERT, DmlCommand
from slackwater.spark.dml.merge.builder import DeltaMergeBuilder
from slackwater.spark.dml.merge.matches import MergeMatches
from slackwater.spark.dml.merge.merge import Merge
from slackwater.spark.dml.merge.source import SOURCE_ID
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.write.operation_info import described
from slackwater.spark.write.options import Matching, WriteOptions
from slackwater.spark.write.write_command import WriteAttempt, assigned_rows
from slackwater.sql.lexer import quoted
from slackwater.transaction.commit_result import CommitResult

_DATA = "__slackwater_data"


def replace_matching(
    frame: DataFrame, table: Table, request: WriteOptions, settings: SessionSettings
) -> CommitResult | None:
    """Replace the rows of `table` matched by `frame` according to `request`, and add all rows of `frame`.

    Rows are compared by `=`, so null matches nothing. An empty frame removes no row. Returns None if the application
    already committed this write. Raises the errors of `save`.
    """
    assert request.matching is not None  # noqa: S101  (the caller checks this first)
    own = settings.of_write(request.application, request.user_metadata, request.user_name)
    change = DmlCommand(frame.sparkSession, table, "WRITE", request.matching.target_alias, own, request.rows)
    write = WriteAttempt(assigned_rows(frame, change.snapshot, request), change.snapshot, request, settings)
    write.validate_mode()
    change.evolve(write.configuration)
    source, condition = _matched(frame, request.matching, change)
    builder = DeltaMergeBuilder(_not_by_itself, source, condition).whenMatchedDelete()
    with Progress.of(frame.sparkSession, "WRITE", by_arrow=lambda: change.scan.by_arrow) as progress:
        return change.run(_Replacing(change, builder, progress, request).run)


class _Replacing(Merge):
    """A MERGE that deletes the matched rows and inserts all rows of the source."""

    condition_name = "the condition of replaceOn"

    def __init__(
        self, change: DmlCommand, builder: DeltaMergeBuilder, progress: Progress, request: WriteOptions
    ) -> None:
        super().__init__(change, builder, progress)
        self._request = request

    def apply(self, found: MergeMatches) -> None:
        super().apply(found)
        change = self.change
        # The compared rows, because reading the source again might return other rows.
        rows = assigned_rows(found.source.frame.drop(SOURCE_ID), change.snapshot, self._request)
        inserted = change.insert(rows, INSERT if found.makes_feed else None, self._request.parquet)
        change.require_rows(found.source.rows, inserted.num_rows)

    def parameters(self) -> Mapping[str, str]:
        said = described(self._request, self.change.rows.metadata, (), (), is_new=False)
        return said.parameters

    def metrics(self, found: MergeMatches) -> Mapping[str, int]:  # noqa: ARG002  (signature of `Merge.metrics`)
        staged = self.change.transaction.staged
        said = described(self._request, self.change.rows.metadata, staged.adds, staged.removes, is_new=False)
        return {key: int(value) for key, value in said.metrics.items()}


def _matched(frame: DataFrame, matching: Matching, change: DmlCommand) -> tuple[DataFrame, str]:
    """Return the data, and the condition under which a row of the data replaces a row of the table."""
    if matching.on is not None:
        return frame, matching.on
    known = {field.name.lower(): field.name for field in change.snapshot.schema}
    given = {name.lower(): name for name in frame.columns}
    pairs = []
    for name in matching.columns:
        plain = name[1:-1].replace("``", "`") if name.startswith("`") and name.endswith("`") and len(name) > 1 else name
        for side, columns in (("table", known), ("data", given)):
            if plain.lower() not in columns:
                raise InvalidArgument(
                    f"{change.snapshot.store.root_url}: replaceUsing names {name}, but the {side} has no such column. "
                    f"Its columns are {sorted(columns.values())}",
                    error_class="UNRESOLVED_INSERT_REPLACE_USING_COLUMN",
                )
        target, source = (quoted(columns[plain.lower()]) for columns in (known, given))
        pairs.append(f"{quoted(change.alias)}.{target} = {quoted(_DATA)}.{source}")
    return frame.alias(_DATA), " AND ".join(pairs)


def _not_by_itself(_: DeltaMergeBuilder) -> DataFrame:
    raise AssertionError("an overwrite runs its own MERGE")

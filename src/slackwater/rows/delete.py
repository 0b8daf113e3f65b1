"""`slackwater.delete`: deletes rows in this process and without Spark.

Source: delta-protocol.md "Deletion Vectors", "Add File and Remove File", "Change Data Files"; delta-spark's DELETE.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import orjson

from slackwater.log.table import Table
from slackwater.predicate.predicate import Constant, Predicate
from slackwater.rows.request import condition_text, opened_table, row_predicate
from slackwater.rows.row_removal import matching_rows, remove_rows
from slackwater.rows.row_writer import RowWriter, commit_rows
from slackwater.scan.public_snapshot import Snapshot as PublicSnapshot
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.commit_validation import validate_not_append_only


def delete(
    table: str | os.PathLike[str] | PublicSnapshot,
    where: str | Predicate | None,
    *,
    storage_options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
) -> CommitResult | None:
    """Delete the rows of `table` for which `where` is true, in one commit. Return None if there is no such row.

    `table` is a path, a URL, or a Snapshot (rows of its newest version are deleted). `where` is SQL text or a predicate
    with the conditions of `Snapshot.to_arrow`; None deletes all rows. Files with only such rows are removed, unread if
    their partition values or statistics prove it. Other files get deletion vectors if the table has them enabled, and
    are rewritten otherwise. `storage_options` are those of `Snapshot.load`, `user_metadata` is a text for the history.

    Raises:
        TableNotFound: If there is no table.
        InvalidArgument: If `where` is not valid on this table or cannot filter rows.
        OperationNotAllowed: If the table is append-only.
        UnsupportedFeature: If the table needs an unsupported feature.
        DeltaConcurrentModificationException: If a concurrent commit conflicts; also its subclasses.
        CommitUnknown: If the outcome of the commit is unknown. After any other error the table is unchanged.

    >>> import pyarrow as pa
    >>> slackwater.write(path, pa.table({"id": [1, 2, 3]})).version
    0
    >>> slackwater.delete(path, "id > 1").version
    1
    >>> slackwater.Snapshot.load(path).to_arrow().to_pylist()
    [{'id': 1}]
    """
    return delete_rows(opened_table(table, storage_options), where, user_metadata)


def delete_rows(
    table: Table, where: str | Predicate | None, user_metadata: str | None = None, clock: Clock | None = None
) -> CommitResult | None:
    """Delete the rows of an opened table, like `delete`."""
    snapshot = Snapshot.open(table)
    snapshot.configuration.require_writable(table.root_url)
    validate_not_append_only(snapshot.configuration)
    predicate: Predicate = Constant(True)
    if where is not None:
        predicate = row_predicate(where, snapshot.schema)
    matching = matching_rows(snapshot, predicate)
    if matching.is_empty:
        return None
    transaction = begin(snapshot, clock=clock)
    writer = RowWriter(table, snapshot.configuration, dict(snapshot.domain_metadata))
    parameters = {"predicate": orjson.dumps(["true" if where is None else condition_text(where)]).decode()}

    def staged() -> dict[str, int]:
        metrics = remove_rows(transaction, writer, matching)
        again = {add.path for add in transaction.staged.adds}
        removes = transaction.staged.removes
        return {
            **metrics,
            "numRemovedFiles": sum(remove.path not in again for remove in removes),
            "numAddedFiles": len(again - {remove.path for remove in removes}),
            "numAddedChangeFiles": len(transaction.staged.change_files),
        }

    return commit_rows(transaction, writer, staged, "DELETE", parameters, user_metadata)

"""Beginning a transaction on one table: who commits for it is chosen here, and nowhere else."""

from __future__ import annotations

from slackwater.log.table import Table
from slackwater.protocol.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.committers.factory import committer_for
from slackwater.transaction.table.definition import TableActions
from slackwater.transaction.transaction import TableTransaction


def begin(
    snapshot: Snapshot, configuration: TableConfiguration | None = None, clock: Clock | None = None, zone: str = "UTC"
) -> TableTransaction:
    """A transaction on the table as of `snapshot`, which it leaves as `configuration`, where that is another one.

    `zone` is that of times in partition values. Raises as `committer_for`.
    """
    committer = committer_for(snapshot.table, configuration or snapshot.configuration)
    return TableTransaction(snapshot.table, committer, snapshot, clock or Clock(), zone=zone)


def begin_table(
    table: Table, defined: TableActions, replaced: Snapshot | None = None, clock: Clock | None = None
) -> TableTransaction:
    """The transaction that makes `table` what was defined: a new one, or one in the place of `replaced`.

    Raises as `committer_for`.
    """
    committer = committer_for(table, defined.configuration)
    transaction = TableTransaction(table, committer, replaced, clock or Clock())
    transaction.define(defined)
    return transaction

"""Begins transactions on one table. The committer is chosen only here."""

from __future__ import annotations

from slackwater.log.table import Table
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.committers.factory import committer_for
from slackwater.transaction.definition import TableActions


def begin(
    snapshot: Snapshot, configuration: TableConfiguration | None = None, clock: Clock | None = None, zone: str = "UTC"
) -> TableTransaction:
    """Begin a transaction on the table as of `snapshot`.

    `configuration` is the table after the commit, None if unchanged. `zone` is the time zone of times in partition
    values. Raises the errors of `committer_for`.
    """
    committer = committer_for(snapshot.table, configuration or snapshot.configuration)
    return TableTransaction(snapshot.table, committer, snapshot, clock or Clock(), zone=zone)


def begin_table(
    table: Table, defined: TableActions, replaced: Snapshot | None = None, clock: Clock | None = None
) -> TableTransaction:
    """Begin a transaction that creates `table` as `defined`, or replaces the table of the snapshot `replaced`.

    Raises the errors of `committer_for`.
    """
    committer = committer_for(table, defined.configuration)
    transaction = TableTransaction(table, committer, replaced, clock or Clock())
    transaction.define(defined)
    return transaction

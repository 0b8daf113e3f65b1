"""Monitoring commands of a lake: `slackwater lake transactions | locks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.cli.common.render import Form, print_human, print_note, print_rows, table
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of
from slackwater.cli.common.watch import Watch, watched
from slackwater.cli.lake.lake_argument import CaFile, DatabaseUrl, LakePath, Token, moment, opened

if TYPE_CHECKING:
    from slackwater.owner.api.monitoring import Activity, LockInfo, OpenTransaction

_TRANSACTION = ("transaction", "stage", "tables", "since", "after", "until", "holder", "openedBy", "hasEnded")
_LOCK = ("table", "partition", "transaction", "held", "wanted", "waitsFor", "since", "holder", "hasEnded")


def transactions_command(
    path: LakePath,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    watch: Watch = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the active transactions: tables, start, and possible range of the timestamp.

    Ids are shortened. A transaction of a crashed process is shown as ended, and blocks no other transaction.

    Examples:
        slackwater lake transactions /data/lake
    """

    def show(activity: Activity, form: Form) -> None:
        records = [_transaction(each) for each in activity.transactions]
        print_rows(form, records, _TRANSACTION, lambda: _print_transactions(records))
        _note_left_out(activity)

    _shown(path, (database, token, ca_file, storage_option), watch, form_of(as_json, as_csv), show)


def locks_command(
    path: LakePath,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    watch: Watch = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the locks and the transactions waiting for each other.

    Modes: S to read, X to write, IS and IX for parts of the table, SIX to read the whole table and write parts.

    Examples:
        slackwater lake locks /data/lake
        slackwater lake locks https://localhost:8443 --ca-file /data/cert.pem
    """

    def show(activity: Activity, form: Form) -> None:
        records = [_lock(each) for each in activity.locks]
        print_rows(form, records, _LOCK, lambda: _print_locks(records))
        _note_left_out(activity)

    _shown(path, (database, token, ca_file, storage_option), watch, form_of(as_json, as_csv), show)


_Way = tuple[str | None, str | None, str | None, list[str] | None]


def _shown(path: str, way: _Way, watch: float | None, form: Form, show: Callable[[Activity, Form], None]) -> None:
    def once() -> None:
        with opened(path, *way) as lake:
            activity = lake.activity()
        show(activity, form)

    watched(watch, once)


def _transaction(found: OpenTransaction) -> dict[str, Any]:
    values = (
        found.transaction,
        found.stage.value,
        list(found.tables),
        None if found.since_ms is None else moment(found.since_ms),
        None if found.low_ms is None else moment(found.low_ms),
        None if found.high_ms is None else moment(found.high_ms),
        found.holder,
        found.opened_by,
        found.has_ended,
    )
    return dict(zip(_TRANSACTION, values, strict=True))


def _lock(found: LockInfo) -> dict[str, Any]:
    values = (
        found.table,
        found.granule or None,
        found.transaction,
        found.held or None,
        found.wanted or None,
        list(found.waits_for),
        moment(found.since_ms),
        found.holder,
        found.has_ended,
    )
    return dict(zip(_LOCK, values, strict=True))


def _print_transactions(records: Sequence[Mapping[str, Any]]) -> None:
    headers = ("transaction", "stage", "tables", "since (UTC)", "its time, after (UTC)", "up to (UTC)", "by")
    rows = [
        (
            each["transaction"],
            "ended" if each["hasEnded"] else each["stage"],
            ", ".join(each["tables"]),
            each["since"],
            each["after"],
            each["until"],
            each["openedBy"] or each["holder"],
        )
        for each in records
    ]
    print_human(table(headers, rows))


def _print_locks(records: Sequence[Mapping[str, Any]]) -> None:
    headers = ("table", "partition", "transaction", "holds", "waits for", "of", "since (UTC)", "process")
    rows = [
        (
            each["table"],
            each["partition"],
            f"{each['transaction']} (ended)" if each["hasEnded"] else each["transaction"],
            each["held"],
            each["wanted"],
            ", ".join(each["waitsFor"]),
            each["since"],
            each["holder"],
        )
        for each in records
    ]
    print_human(table(headers, rows))


def _note_left_out(activity: Activity) -> None:
    if activity.left_out:
        print_note(f"{activity.left_out} more are not shown")

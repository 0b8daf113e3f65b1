"""Command that inspects a streaming query from outside: `slackwater stream-state`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from slackwater.cli.common.render import Form, print_csv, print_human, print_json, table
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of, storage_options
from slackwater.cli.common.watch import Watch, watched
from slackwater.html.number_format import counted, format_bytes, iso, visible
from slackwater.log.table_detail import to_moment
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.open import open_store
from slackwater.streams.checkpoint import PlannedBatch, SourceProgress, StreamCheckpoint, read_checkpoint
from slackwater.streams.offsets import BASE_INDEX

if TYPE_CHECKING:
    from slackwater.streams.backlog import Backlog

# By the names of `SinkState`.
_SINK_SAYS = {
    "NOTHING": "holds no batch of this query",
    "IN_STEP": "holds batch {held}, the last one that was done",
    "HAS_NEXT": "holds batch {held} already, which the next start runs again and skips there",
    "BEHIND": "holds batch {held} only: it was set back or made anew, and rows of later batches are missing",
    "AHEAD": "holds batch {held}: the checkpoint was set back, and batches up to that one would be skipped "
    "there; begin with a new checkpoint, or bring back the one that was",
}

_SOURCE_RECORD = (
    "source",
    "isDelta",
    "tableId",
    "version",
    "index",
    "isInitialSnapshot",
    "offset",
    "problem",
    "table",
    "behind",
)


def stream_state_command(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="Directory or URL of the checkpoint.", show_default=False)
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="PATH", help="Source table of the query, to report its backlog. Repeatable."),
    ] = None,
    sinks: Annotated[
        list[str] | None,
        typer.Option("--sink", metavar="PATH", help="Target table of the query, to report its last batch. Repeatable."),
    ] = None,
    watch: Watch = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Report the progress of a Structured Streaming query from its checkpoint.

    Changes nothing; the query may be running. The backlog of a table is counted from the last completed batch:
    versions, and the files added by them. Files with changed rows are included, whether or not the query's options
    allow reading them. --csv contains the sources only.

    Examples:
        slackwater stream-state /data/query/checkpoint --table /data/query/source --sink /data/query/sink
    """
    form, options = form_of(as_json, as_csv), storage_options(storage_option)

    def show() -> None:
        document = _document(checkpoint, tables or (), sinks or (), options)
        if form is Form.JSON:
            print_json(document)
        elif form is Form.CSV:
            print_csv(document["sources"], _SOURCE_RECORD)
        else:
            _print(document)

    watched(watch, show)


def _document(
    checkpoint: str, tables: Iterable[str], sinks: Iterable[str], options: Mapping[str, str]
) -> dict[str, Any]:
    state = read_checkpoint(open_store(checkpoint, options))
    snapshots = [Snapshot.load(path, storage_options=options) for path in tables]
    return {
        "checkpoint": state.root_url,
        "queryId": state.query_id,
        "planned": _batch(state.planned),
        "done": _batch(state.done),
        "nextBatch": state.next_batch,
        "repeats": state.repeats,
        "sources": [_source(each, state, snapshots) for each in _sources(state)],
        "otherTables": _others(state, snapshots),
        "sinks": [_sink(Snapshot.load(path, storage_options=options), state) for path in sinks],
    }


def _sources(state: StreamCheckpoint) -> tuple[SourceProgress, ...]:
    """Return the position in each source: after the last completed batch, else at the end of the first batch."""
    batch = state.done or state.planned
    return () if batch is None else batch.sources


def _batch(batch: PlannedBatch | None) -> dict[str, Any] | None:
    if batch is None:
        return None
    return {"batchId": batch.number, "plannedAt": to_moment(batch.timestamp_ms)}


def _source(source: SourceProgress, state: StreamCheckpoint, snapshots: Iterable[Snapshot]) -> dict[str, Any]:
    # Imported here, because other commands do not need the source of streams.
    from slackwater.streams.backlog import backlog

    at = source.offset
    own = None if at is None else next((each for each in snapshots if each.metadata.id == at.table_id), None)
    # No checkpoint records the start of the first batch.
    left = None if own is None or at is None or state.done is None else _backlog(backlog(own, at))
    return {
        "source": source.name,
        "isDelta": at is not None or source.problem is not None,
        "tableId": None if at is None else at.table_id,
        "version": None if at is None else at.version,
        "index": None if at is None else at.index,
        "isInitialSnapshot": None if at is None else at.is_initial,
        "offset": source.text,
        "problem": source.problem,
        "table": None if own is None else own.table.root_url,
        "behind": left,
    }


def _backlog(left: Backlog) -> dict[str, Any]:
    return {
        "newestVersion": left.newest,
        "versions": left.versions,
        "files": left.files,
        "bytes": left.size_bytes,
        "lostVersion": left.lost,
        "tableIsOlder": left.is_ahead,
    }


def _others(state: StreamCheckpoint, snapshots: Iterable[Snapshot]) -> list[dict[str, Any]]:
    """Return the given tables without a source in the checkpoint."""
    read = {source.offset.table_id for source in _sources(state) if source.offset is not None}
    return [
        {"table": each.table.root_url, "tableId": each.metadata.id}
        for each in snapshots
        if each.metadata.id not in read
    ]


def _sink(snapshot: Snapshot, state: StreamCheckpoint) -> dict[str, Any]:
    from slackwater.streams.backlog import sink_state

    transaction = snapshot.transactions.get(state.query_id)
    held = None if transaction is None else transaction.version
    return {
        "table": snapshot.table.root_url,
        "version": snapshot.version,
        "batchId": held,
        "state": sink_state(state, held).value,
    }


def _print(document: Mapping[str, Any]) -> None:
    from slackwater.streams.backlog import SinkState

    next_says = f"batch {document['nextBatch']}"
    if document["repeats"] is not None:
        next_says += ", again: it was planned and not done"
    query = [
        ("query", document["queryId"]),
        ("planned", _batch_says(document["planned"])),
        ("done", _batch_says(document["done"])),
        ("next start", next_says),
    ]
    print_human(table(("checkpoint", document["checkpoint"]), query))
    rows = [(source["source"], *_source_says(source)) for source in document["sources"]]
    if rows:
        place = "is at" if document["done"] else "will be at"
        print_human("", table(("source", place, "behind"), rows))
    for other in document["otherTables"]:
        print_human(_line(f"{other['table']}: the table with the id {other['tableId']}, which no source reads"))
    for sink in document["sinks"]:
        says = _SINK_SAYS[SinkState(sink["state"]).name].format(held=sink["batchId"])
        print_human(_line(f"{sink['table']}: {says}"))


def _batch_says(batch: Mapping[str, Any] | None) -> str:
    if batch is None:
        return "no batch"
    at: dt.datetime = batch["plannedAt"]
    return f"batch {batch['batchId']}, planned at {iso(at)}"


def _source_says(source: Mapping[str, Any]) -> tuple[str, str]:
    if source["problem"] is not None:
        return source["problem"], ""
    if not source["isDelta"]:
        return f"no Delta table: {source['offset'] or 'nothing read'}", ""
    version, index = source["version"], source["index"]
    if source["isInitialSnapshot"]:
        place = f"the snapshot of version {version}, {counted(index + 1, 'file')} of it read"
    elif index == BASE_INDEX:
        place = "the beginning" if version == 0 else f"the end of version {version - 1}"
    else:
        place = f"version {version}, {counted(index + 1, 'action')} of it read"
    return f"{place}, table {source['tableId']}", _behind_says(source["behind"])


def _behind_says(left: Mapping[str, Any] | None) -> str:
    if left is None:
        return ""
    newest = f"newest is version {left['newestVersion']}"
    if left["tableIsOlder"]:
        return f"{newest}: the table was set back"
    size = format_bytes(left["bytes"])
    size = f"{size} B" if size.isdigit() else size
    says = f"{counted(left['versions'], 'version')}, {counted(left['files'], 'file')}, {size}; {newest}"
    if left["lostVersion"] is None:
        return says
    return f"{says}; version {left['lostVersion']} was cleaned up before it was read"


def _line(text: str) -> Text:
    return Text(visible(text))

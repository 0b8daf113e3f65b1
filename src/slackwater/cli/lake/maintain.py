"""Command `slackwater lake maintain`: due maintenance of all tables of a lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.common.progress import working
from slackwater.cli.common.render import Form, print_csv, print_human, print_json, print_note, table
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of
from slackwater.cli.lake.lake_argument import WORK_S, CaFile, DatabaseUrl, LakePath, Token, opened
from slackwater.html.number_format import counted, short_bytes
from slackwater.optional_dependencies import require

if TYPE_CHECKING:
    from slackwater.lake.maintenance.maintain import TableMaintenance
    from slackwater.lake.maintenance.tasks import Optimizer

_RECORD = ("table", "task", "state", "files", "sizeInBytes", "detail")


def maintain_command(
    path: LakePath,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names of the tables.", show_default="all tables")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do the due work. Without it, print the plan only.")] = False,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark", help="Start a Spark session for OPTIMIZE. The variable SPARK_REMOTE chooses a Connect server."
        ),
    ] = False,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            metavar="TASK",
            help="Task to plan: optimize, vacuum, checkpoint or cleanup. Repeatable.",
            show_default="all tasks",
        ),
    ] = None,
    small_files: Annotated[
        int,
        typer.Option(
            "--small-files", min=1, metavar="COUNT", help="Files to rewrite in one partition before OPTIMIZE is due."
        ),
    ] = 10,
    commits: Annotated[
        int | None,
        typer.Option(
            "--commits",
            min=1,
            metavar="COUNT",
            help="Commits since the last checkpoint before a new checkpoint is due.",
            show_default="delta.checkpointInterval",
        ),
    ] = None,
    log_files: Annotated[
        int,
        typer.Option("--log-files", min=1, metavar="COUNT", help="Expired log files before their cleanup is due."),
    ] = 1,
    removed_files: Annotated[
        int,
        typer.Option("--removed-files", min=1, metavar="COUNT", help="Files to delete before VACUUM is due."),
    ] = 1,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Report the due maintenance of all tables: OPTIMIZE, VACUUM, checkpoints and log cleanup.

    Without --yes nothing changes. An error of one table does not stop the others; the exit code is then 1.

    Examples:
        slackwater lake maintain /data/lake
        slackwater lake maintain /data/lake --yes --task checkpoint --task cleanup
    """
    # Imported here, because other commands do not need the writers of tables.
    from slackwater.lake.maintenance.maintain import FAILED
    from slackwater.lake.maintenance.tasks import MaintenanceThresholds, TableTasks

    form = form_of(as_json, as_csv)
    thresholds = MaintenanceThresholds(small_files, commits, log_files, removed_files)
    found: list[TableMaintenance] = []
    with (
        opened(path, database, token, ca_file, storage_option, WORK_S) as lake,
        _optimizer(spark) as optimizer,
        working("looking for work") as line,
    ):
        total = len(names or lake.table_names())
        work = TableTasks(thresholds, lake.clock, optimizer=optimizer)
        rows = lake._maintain(work, names or None, task, not yes, lambda what, done: line.at(what, done, total))
        found.extend(rows)
    _print(form, found)
    if any(row.state == FAILED for row in found):
        raise typer.Exit(1)


@contextmanager
def _optimizer(spark: bool) -> Iterator[Optimizer | None]:
    if not spark:
        yield None
        return
    require("spark", "OPTIMIZE")
    from slackwater.spark.lake.maintenance import started_session

    with started_session() as optimizer:
        yield optimizer


def _print(form: Form, found: Sequence[TableMaintenance]) -> None:
    from slackwater.lake.maintenance.maintain import DONE, DUE, FAILED, NEEDS_SPARK

    records = [_record(row) for row in found]
    if form is Form.JSON:
        print_json(records)
        return
    if form is Form.CSV:
        print_csv(records, _RECORD)
        return
    rows = [(row.table, row.task, row.state, row.files, _size(row.size_bytes), row.detail) for row in found]
    print_human(table(("table", "task", "state", "files", "size", "detail"), rows, right=("files", "size")))
    counts = {state: sum(row.state == state for row in found) for state in (DONE, DUE, NEEDS_SPARK, FAILED)}
    said = [f"{counted(count, 'task')} {state}" for state, count in counts.items() if count]
    print_note(", ".join(said) or "no task is due")
    if counts[DUE]:
        print_note("nothing was changed: --yes does the due work")
    if counts[NEEDS_SPARK]:
        print_note("OPTIMIZE rewrites rows: --spark does it in a Spark session")


def _size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else short_bytes(size_bytes)


def _record(row: TableMaintenance) -> dict[str, Any]:
    values = (row.table, row.task, row.state, row.files, row.size_bytes, row.detail)
    return dict(zip(_RECORD, values, strict=True))

"""Maintenance of a lake: plans and runs the tasks of each table. An error affects one task only.

Source: docs/guides/maintenance.md "A whole lake".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from slackwater.errors import InvalidArgument, TableNotFound
from slackwater.html.number_format import one_line
from slackwater.lake.maintenance.tasks import CHECKPOINT, CLEANUP, OPTIMIZE, TASKS, TableTasks, Work
from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot

NOT_DUE, DUE, NEEDS_SPARK, DONE, FAILED = "not due", "due", "needs Spark", "done", "failed"
OPEN = "open"
"""The task of a row for a table that cannot be read."""


@dataclass(frozen=True, slots=True)
class TableMaintenance:
    """A row of the report: the state of one task of one table.

    `task`: `optimize`, `vacuum`, `checkpoint` or `cleanup`; `open` if the table cannot be read. `state`: `not due`,
    `due`, `needs Spark`, `done` or `failed`. `files`: files to rewrite or to delete, or already rewritten or deleted;
    for a checkpoint, commits since the last one. `size_bytes`: their size, None if unknown. `detail`: the reason, or
    the error.
    """

    table: str
    task: str
    state: str
    files: int = 0
    size_bytes: int | None = None
    detail: str = ""


def maintain_tables(
    names: Sequence[str],
    open_table: Callable[[str], Table],
    tasks: TableTasks,
    chosen: Sequence[str] | None = None,
    dry_run: bool = True,
    working: Callable[[str, int], None] = lambda what, done: None,  # noqa: ARG005  (the names are the interface)
) -> Iterator[TableMaintenance]:
    """Yield a row for each table of `names` and each task of `chosen`, by default all TASKS.

    `open_table` opens a table by name. With `dry_run` nothing changes. `working` is called before each task, with a
    text and the number of completed tables. Raises InvalidArgument for an unknown task, before any work.
    """
    wanted = [task for task in TASKS if chosen is None or task in chosen]
    unknown = [task for task in chosen or () if task not in TASKS]
    if unknown or not wanted:
        raise InvalidArgument(f"the tasks of maintenance are {', '.join(TASKS)}, found {unknown or chosen!r}")
    return _rows(names, open_table, tasks, wanted, dry_run, working)


def chosen_tables(known: Sequence[str], chosen: Sequence[str] | None) -> list[str]:
    """Return `chosen` tables, by default all `known` tables. Raises TableNotFound."""
    missing = [name for name in chosen or () if name not in known]
    if missing:
        raise TableNotFound(f"the lake has no table {missing[0]!r}. Existing tables: {', '.join(known) or 'none'}")
    return list(known if chosen is None else dict.fromkeys(chosen))


def _rows(
    names: Sequence[str],
    open_table: Callable[[str], Table],
    tasks: TableTasks,
    wanted: Sequence[str],
    dry_run: bool,
    working: Callable[[str, int], None],
) -> Iterator[TableMaintenance]:
    for done, name in enumerate(names):
        try:
            snapshot = Snapshot.open(open_table(name))
        except Exception as error:  # noqa: BLE001  (a table that cannot be read must not stop the other tables)
            yield _failed(name, OPEN, error)
            continue
        expects_checkpoint = False
        for task in wanted:
            working(f"{task} of {name}", done)
            try:
                snapshot = snapshot.update()
                row, is_due = _row(name, task, snapshot, tasks, dry_run, expects_checkpoint)
            except Exception as error:  # noqa: BLE001  (a failed task must not stop the other tasks and tables)
                yield _failed(name, task, error)
                continue
            expects_checkpoint |= task == CHECKPOINT and is_due
            yield row


def _row(
    name: str, task: str, snapshot: Snapshot, tasks: TableTasks, dry_run: bool, expects_checkpoint: bool
) -> tuple[TableMaintenance, bool]:
    work = tasks.plan(task, snapshot, expects_checkpoint=dry_run and task == CLEANUP and expects_checkpoint)
    if not work.is_due:
        return _of(name, task, NOT_DUE, work), False
    if task == OPTIMIZE and tasks.optimizer is None:
        return _of(name, task, NEEDS_SPARK, work), True
    if dry_run:
        return _of(name, task, DUE, work), True
    return _of(name, task, DONE, tasks.run(task, snapshot, work)), True


def _of(name: str, task: str, state: str, work: Work) -> TableMaintenance:
    return TableMaintenance(name, task, state, work.files, work.size_bytes, work.detail)


def _failed(name: str, task: str, error: Exception) -> TableMaintenance:
    return TableMaintenance(name, task, FAILED, detail=one_line(f"{type(error).__name__}: {error}"))

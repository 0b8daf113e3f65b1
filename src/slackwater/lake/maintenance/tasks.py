"""Maintenance tasks of one table: conditions under which a task is due, and its execution.

Source: delta-protocol.md "Checkpoints", "Metadata Cleanup"; delta-spark's OPTIMIZE and VACUUM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from slackwater.errors import InvalidArgument
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.files.segment import LogListing, list_log
from slackwater.log.table import Table
from slackwater.maintenance.layout.bin_packing import BinPackingOptions
from slackwater.maintenance.layout.optimize_estimate import expected_optimize
from slackwater.maintenance.vacuum import vacuum
from slackwater.maintenance.vacuum_request import VacuumRequest
from slackwater.protocol.properties.properties import DELETED_FILE_RETENTION, TableProperties
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.log_maintenance import checkpoint_interval, checkpoint_newest, clean_up

OPTIMIZE, VACUUM, CHECKPOINT, CLEANUP = "optimize", "vacuum", "checkpoint", "cleanup"
TASKS = (OPTIMIZE, VACUUM, CHECKPOINT, CLEANUP)
"""The tasks in the order of execution. VACUUM reads the log, so it precedes the cleanup of the log."""

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class MaintenanceThresholds:
    """Conditions under which a task is due.

    `small_files`: minimum number of files in one partition that OPTIMIZE would rewrite; of the whole table if it is
    clustered. `commits`: commits since the last checkpoint, None for `delta.checkpointInterval`. `log_files`: log files
    past `delta.logRetentionDuration`. `removed_files`: files not needed within `delta.deletedFileRetentionDuration`.
    """

    small_files: int = 10
    commits: int | None = None
    log_files: int = 1
    removed_files: int = 1

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            is_default = name == "commits" and value is None
            if not is_default and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InvalidArgument(f"{name} must be a whole number from 1, found {value!r}")


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a task: number of files, their size in bytes if known, and a text.

    The files are to be rewritten or deleted. For a checkpoint, they are the commits that readers can skip afterwards.
    """

    is_due: bool
    files: int
    size_bytes: int | None
    detail: str


class Optimizer(Protocol):
    """OPTIMIZE of a session. Without Spark, there is none."""

    def packing(self, properties: TableProperties) -> BinPackingOptions:
        """Return the target sizes of files. Raises InvalidArgument."""
        ...

    def optimize(self, table: Table, least_files: int) -> tuple[int, int, int]:
        """Optimize `table`. Return the number of rewritten files, their size in bytes, and the number of new files."""
        ...


@dataclass(frozen=True)
class TableTasks:
    """The tasks of one table. `vacuum_request` has options of VACUUM, such as the user of its commits."""

    thresholds: MaintenanceThresholds
    clock: Clock
    vacuum_request: VacuumRequest = VacuumRequest()  # noqa: RUF009  (immutable)
    optimizer: Optimizer | None = None

    def plan(self, task: str, snapshot: Snapshot, expects_checkpoint: bool = False) -> Work:
        """Return the work of `task` on the newest version `snapshot`, without changes.

        `expects_checkpoint`: a checkpoint is written before the cleanup of the log. Raises the errors of the task.
        """
        if task == CLEANUP:
            return self._cleanup(snapshot, dry_run=True, expects_checkpoint=expects_checkpoint)
        plans: dict[str, Callable[[Snapshot], Work]] = {
            OPTIMIZE: self._small_files,
            VACUUM: self._removed_files,
            CHECKPOINT: self._commits,
        }
        return plans[task](snapshot)

    def run(self, task: str, snapshot: Snapshot, planned: Work) -> Work:
        """Do the `planned` work of `task` on the newest version `snapshot`. Return the completed work.

        Raises the errors of the task. Raises InvalidArgument for OPTIMIZE without Spark.
        """
        if task == OPTIMIZE:
            if self.optimizer is None:
                raise InvalidArgument("OPTIMIZE rewrites rows, which needs Spark. Call maintain of slackwater.Lake")
            rewritten, size_bytes, written = self.optimizer.optimize(snapshot.table, self.thresholds.small_files)
            return Work(True, rewritten, size_bytes, f"{rewritten} files became {written}")
        if task == VACUUM:
            done = vacuum(snapshot.table, self.vacuum_request, self.clock)
            return replace(planned, files=len(done.paths), size_bytes=done.size_bytes)
        if task == CHECKPOINT:
            info = checkpoint_newest(snapshot, self.clock.now_ms())
            return replace(planned, detail=f"checkpoint of version {info.version}")
        return self._cleanup(snapshot, dry_run=False)

    def _small_files(self, snapshot: Snapshot) -> Work:
        packing = None if self.optimizer is None else self.optimizer.packing(snapshot.properties)
        least = self.thresholds.small_files
        found = expected_optimize(snapshot, snapshot.live_files(ADD_SCHEMA.names), packing, least)
        if not found.rewritten:
            return Work(False, 0, 0, f"fewer than {least} files to rewrite in each partition")
        detail = f"{found.rewritten} of {found.files_before} files become {found.written}"
        return Work(True, found.rewritten, found.rewritten_bytes, detail)

    def _removed_files(self, snapshot: Snapshot) -> Work:
        found = vacuum(snapshot.table, replace(self.vacuum_request, dry_run=True), self.clock)
        count = len(found.paths)
        hours = (snapshot.properties.duration_ms(DELETED_FILE_RETENTION) or 0) / _HOUR_MS
        detail = f"not needed by the versions of the last {hours:g} hours"
        return Work(count >= self.thresholds.removed_files, count, found.size_bytes, detail)

    def _commits(self, snapshot: Snapshot) -> Work:
        listing = list_log(snapshot.store)
        least = self.thresholds.commits or checkpoint_interval(snapshot.properties)
        last, count = _since_checkpoint(listing)
        since = "no checkpoint yet" if last is None else f"last checkpoint: version {last}"
        return Work(count >= least, count, None, f"{since}, due after {least} commits")

    def _cleanup(self, snapshot: Snapshot, dry_run: bool, expects_checkpoint: bool = False) -> Work:
        newest = list_log(snapshot.store).latest_version if expects_checkpoint else None
        found = clean_up(snapshot, self.clock.now_ms(), dry_run, newest)
        count = len(found.deleted)
        if found.protected_before is not None:
            detail = f"checkpoints before version {found.protected_before} are protected"
        elif found.checkpoint_version is not None:
            detail = f"versions before {found.checkpoint_version} expired"
        else:
            detail = "no expired version before a checkpoint"
        return Work(count >= self.thresholds.log_files, count, None, detail)


def _since_checkpoint(listing: LogListing) -> tuple[int | None, int]:
    """Return the version of the last checkpoint, and the number of later commits in the log."""
    last = max((each.version for each in listing.checkpoints), default=None)
    return last, sum(last is None or version > last for version in listing.commits)

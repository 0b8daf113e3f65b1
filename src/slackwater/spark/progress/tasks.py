"""Task statistics: finished and total Spark tasks of one operation.

A classic session is queried. A Connect server reports every two seconds, unless its
`spark.connect.progress.reportInterval` sets another interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Tasks:
    """The finished and total tasks of the running Spark stages."""

    finished: int
    total: int


class TaskCounter(Protocol):
    """Source of task statistics."""

    def tagged(self) -> AbstractContextManager[None]:
        """Observe the jobs started by this thread in the block."""
        ...

    def look(self) -> Tasks | None:
        """Return the current tasks, or None if Spark does not report."""
        ...


@dataclass(frozen=True, slots=True)
class JobTasks:
    """The tasks of a classic session's jobs started by one thread, identified by a tag."""

    context: Any
    tag: str

    @contextmanager
    def tagged(self) -> Iterator[None]:
        """Tag the jobs started by this thread in the block."""
        with suppress(Exception):
            self.context.addJobTag(self.tag)
        try:
            yield
        finally:
            with suppress(Exception):
                self.context.removeJobTag(self.tag)

    def look(self) -> Tasks | None:
        """See `TaskCounter.look`."""
        try:
            tracker = self.context.statusTracker()
            jobs = self.context._jsc.sc().statusTracker().getJobIdsForTag(self.tag)
            infos = [info for job in sorted(jobs) if (info := tracker.getJobInfo(job)) is not None]
            stages = {stage for info in infos if info.status == "RUNNING" for stage in info.stageIds}
            found = [stage for number in stages if (stage := tracker.getStageInfo(number)) is not None]
            running = [stage for stage in found if stage.numActiveTasks]
            return Tasks(sum(s.numCompletedTasks for s in running), sum(s.numTasks for s in running))
        except Exception:  # noqa: BLE001  internals of PySpark, and a session that may be stopped
            return None


@dataclass(slots=True)
class ServerTasks:
    """The tasks reported by a Connect server for `session`, including all threads with this session."""

    session: Any
    _told: dict[str | None, list[Any]] = field(default_factory=dict)

    @contextmanager
    def tagged(self) -> Iterator[None]:
        """Listen to the server within the block."""
        with suppress(Exception):
            self.session.registerProgressHandler(self._heard)
        try:
            yield
        finally:
            with suppress(Exception):
                self.session.removeProgressHandler(self._heard)
            self._told.clear()

    def look(self) -> Tasks | None:
        """See `TaskCounter.look`."""
        running = [stage for stages in list(self._told.values()) for stage in stages if not stage.done]
        return Tasks(sum(s.num_completed_tasks for s in running), sum(s.num_tasks for s in running))

    def _heard(self, *, stages: Any, operation_id: str | None, done: bool, **_: Any) -> None:
        if done:
            self._told.pop(operation_id, None)
        else:
            self._told[operation_id] = list(stages or ())

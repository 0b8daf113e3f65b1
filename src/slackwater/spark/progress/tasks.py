"""How many of Spark's tasks are finished, of those that one piece of work has started.

A classic session is asked. Through Connect the server tells, every two seconds unless its
`spark.connect.progress.reportInterval` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Tasks:
    """How many tasks of the Spark stages that run now are finished, and how many there are."""

    finished: int
    total: int


class TaskCounter(Protocol):
    """Where it is known how far Spark is."""

    def tagged(self) -> AbstractContextManager[None]:
        """Within the block, what this thread starts is looked at."""
        ...

    def look(self) -> Tasks | None:
        """The tasks now; None where Spark does not say."""
        ...


@dataclass(frozen=True, slots=True)
class JobTasks:
    """The tasks of the jobs that a classic session starts in one thread, found by a tag on them."""

    context: Any
    tag: str

    @contextmanager
    def tagged(self) -> Iterator[None]:
        """Tags the jobs that this thread starts in the block."""
        with suppress(Exception):
            self.context.addJobTag(self.tag)
        try:
            yield
        finally:
            with suppress(Exception):
                self.context.removeJobTag(self.tag)

    def look(self) -> Tasks | None:
        """As `TaskCounter.look`."""
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
    """The tasks that a Connect server tells of while it works for `session`: those of all threads that use it."""

    session: Any
    _told: dict[str | None, list[Any]] = field(default_factory=dict)

    @contextmanager
    def tagged(self) -> Iterator[None]:
        """Listens to the server within the block."""
        with suppress(Exception):
            self.session.registerProgressHandler(self._heard)
        try:
            yield
        finally:
            with suppress(Exception):
                self.session.removeProgressHandler(self._heard)
            self._told.clear()

    def look(self) -> Tasks | None:
        """As `TaskCounter.look`."""
        running = [stage for stages in list(self._told.values()) for stage in stages if not stage.done]
        return Tasks(sum(s.num_completed_tasks for s in running), sum(s.num_tasks for s in running))

    def _heard(self, *, stages: Any, operation_id: str | None, done: bool, **_: Any) -> None:
        if done:
            self._told.pop(operation_id, None)
        else:
            self._told[operation_id] = list(stages or ())

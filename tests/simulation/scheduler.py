"""The scheduler of a simulated world: who goes on next, what breaks, when the clock moves; all by the seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from slackwater.errors import SlackwaterError
from slackwater.owner.api.commits import LATEST
from slackwater.owner.commit.ratification import resolve_expired
from slackwater.owner.database.schema import commits
from slackwater.owner.state.log_head import RATIFIED
from tests.histories.history import Outcome
from tests.simulation import steps
from tests.simulation.clients import Client, slice_at
from tests.simulation.recording import Recorder, faults_of
from tests.simulation.steps import RATIFY, Rest, Steps, Together
from tests.simulation.world import ELSEWHERE, HERE, Process, Template, World

_LIVELY_STEPS, _MOST_STEPS = 1200, 6000
_MOST_PROCESSES = 4
_HOUR_MS = 3_600_000
_UNSETTLED = sa.select(commits.c.table_id).where(commits.c.state != RATIFIED).distinct()


class Stuck(Exception):
    """Somebody waits for ever."""


@dataclass
class _Task:
    """Something that goes on at a process; what is asked `together` is carried out when its turn comes."""

    process: Process | None
    work: Steps[None]
    client: Client | None = None
    together: Together | None = None
    resting: int = 0


@dataclass
class _Schedule:
    world: World
    recorder: Recorder = field(default_factory=Recorder)
    tasks: list[_Task] = field(default_factory=list)
    steps: int = 0

    def run(self) -> None:
        world = self.world
        for number in range(world.settings.clients):
            self._join(f"c{number}", world.chance(0.6))
        while self._clients():
            if self.steps < _LIVELY_STEPS:
                self._meanwhile()
            else:
                self._becomes_calm()
            self._step()
        self._becomes_calm()
        while self.tasks:
            self._step()
        self._rest()

    def _join(self, name: str, is_embedded: bool) -> None:
        process = self.world.any_process()
        client = Client(self.world, self.recorder, name, process, is_embedded, self.spawn)
        self.tasks.append(_Task(process if is_embedded else None, client.run(), client))

    def spawn(self, process: Process, work: Steps[None]) -> None:
        self.tasks.append(_Task(process, work))

    def _clients(self) -> bool:
        return any(task.client is not None for task in self.tasks)

    def _step(self) -> None:
        world = self.world
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise Stuck(f"after {self.steps} steps {len(self.tasks)} tasks go on")
        if world.is_calm and self.steps % 50 == 0:
            # Leases end.
            world.now_ms += 40_000
        for task in self.tasks:
            task.resting = max(0, task.resting - 1)
        ready = [task for task in self.tasks if not task.resting]
        if not ready:
            # All wait: what they wait for is done as well, or takes time.
            self._hurry()
            return
        task = world.random.choice(ready)
        if task.together is None:
            self._resume(task, None, None)
        else:
            self._together(task, task.together)
        if not world.is_calm and world.chance(0.03):
            task.resting = world.random.randrange(5, 60)

    def _hurry(self) -> None:
        least = min((task.resting for task in self.tasks), default=0)
        for task in self.tasks:
            task.resting -= least

    def _together(self, task: _Task, asked: Together) -> None:
        """Carry out what was asked, for others of the same process as well that ask the same."""
        likely = 0.0 if self.world.before_allocation is not None else 0.5
        joined = [
            (other, other.together)
            for other in self.tasks
            if other is not task
            and other.together is not None
            and (other.together.process, other.together.work) == (asked.process, asked.work)
            and self.world.chance(likely)
        ]
        tasks = [task, *(other for other, _ in joined)]
        for each in tasks:
            each.together = None
        try:
            answers = asked.done_with([together for _, together in joined])
        except SlackwaterError as error:
            for each in tasks:
                self._resume(each, None, error)
        else:
            for each, answer in zip(tasks, answers, strict=True):
                self._resume(each, answer, None)
        self._after(asked, tasks)

    def _after(self, asked: Together, tasks: list[_Task]) -> None:
        """Where it matters most, look at what everybody sees, and let somebody die."""
        world = self.world
        if asked.work == RATIFY:
            cut = world.calmly(world.any_process().owner.cut)
            self.recorder.cuts.append({table.name: table.version or 0 for table in cut.tables})
        elif not world.is_calm and world.chance(world.settings.crashes * 4):
            alive = [task for task in tasks if task in self.tasks]
            if alive:
                self._abandon(world.random.choice(alive))

    def _resume(self, task: _Task, answer: Any, error: SlackwaterError | None) -> None:
        try:
            found = task.work.throw(error) if error is not None else task.work.send(answer)
            task.together = found if isinstance(found, Together) else None
            task.resting = self.world.random.randrange(2, 16) if found is Rest.A_WHILE else 0
        except StopIteration:
            self.tasks.remove(task)
        except SlackwaterError:
            if task.client is not None:
                raise
            self.tasks.remove(task)

    def _meanwhile(self) -> None:
        """What happens by itself."""
        world, settings, random = self.world, self.world.settings, self.world.random
        if world.chance(0.3 if settings.is_quick else 0.8):
            world.now_ms += random.choice([1, 1, 2, 3, 10])
        if world.chance(0.004):
            world.now_ms += random.choice([100, 1000, 3000])
        if world.chance(settings.jumps):
            step = random.choice([-3000, -100, -5, 5, 100, 1000, 3000, 40_000, -40_000, _HOUR_MS, -_HOUR_MS])
            world.skews_ms[random.choice([HERE, ELSEWHERE])] += step
        if world.chance(settings.slices):
            process = world.any_process()
            self.spawn(process, slice_at(world, self.recorder, process))
        if world.chance(settings.backfills):
            process = world.any_process()
            self.spawn(process, steps.backfilled(process, random.choice(world.tables).table_id))
        if world.chance(0.02):
            process = world.any_process()
            self.spawn(process, _doubts(process, random.choice(world.tables).table_id))
        if world.chance(settings.joins):
            if len(world.processes) >= _MOST_PROCESSES:
                # It is asked nothing any more.
                world.processes.remove(world.any_process())
            world.start()
        if world.chance(settings.crashes / 2):
            self._crash(world.any_process())
        if world.chance(settings.crashes / 2) and self.tasks:
            self._abandon(random.choice(self.tasks))

    def _crash(self, process: Process) -> None:
        world = self.world
        world.crash(process)
        if not world.processes or world.chance(0.8):
            world.start()
        for task in [task for task in self.tasks if task.process is process]:
            self._abandon(task)

    def _abandon(self, task: _Task) -> None:
        """It does not go on, nor does it say so; its process may."""
        world, client = self.world, task.client
        self.tasks.remove(task)
        task.work.close()
        if client is None:
            return
        if client.tried is not None:
            outcome = Outcome.UNKNOWN if client.tried.was_sent else Outcome.ABORTED
            client.tried.ended(outcome, world.tick(), "crashed")
        if world.chance(0.5):
            # Whoever ran it runs another.
            next_one = Client(
                world, self.recorder, f"{client.name}'", world.any_process(), client.is_embedded, self.spawn
            )
            self.tasks.append(_Task(next_one.process if next_one.is_embedded else None, next_one.run(), next_one))

    def _becomes_calm(self) -> None:
        if self.world.is_calm:
            return
        self.world.is_calm = True
        # Somebody set the clocks right.
        self.world.skews_ms = dict.fromkeys(self.world.skews_ms, 0)
        for task in self.tasks:
            task.resting = 0

    def _rest(self) -> None:
        """Bring everything to its end, as maintenance does."""
        world = self.world
        process = world.start()
        for _ in range(200):
            waiting = process.database.read(
                lambda c: (
                    c.execute(sa.select(commits.c.table_id).where(commits.c.state != RATIFIED).distinct())
                    .scalars()
                    .all()
                )
            )
            if not waiting:
                break
            world.now_ms += _HOUR_MS
            for table_id in waiting:
                resolve_expired(process.database, process.clock, table_id)
        else:
            raise Stuck(f"commits of {waiting} are never settled")
        for table in world.tables:
            process.owner.backfill_to_version(table.table_id, LATEST)


def ran(
    template: Template,
    seed: int,
    focus: Mapping[str, Any] | None = None,
    prepared: Callable[[World], None] = lambda world: None,
) -> tuple[list[str], Recorder]:
    """What is wrong in the world of `seed`, a line each, nothing if the owner is right; and what was recorded."""
    with template.world(seed, focus) as world:
        prepared(world)
        schedule = _Schedule(world)
        try:
            schedule.run()
            found = faults_of(world, schedule.recorder)
        except Stuck as stuck:
            found = [str(stuck)]
    return found, schedule.recorder


def _doubts(process: Process, table_id: str) -> Steps[None]:
    yield from steps.doubted(process, [table_id])

"""The clients of a simulated world: transactions over many tables, commits to one, time slices."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from slackwater.errors import CommitUnknown, InvalidArgument, SlackwaterError, TimestampOutOfRange
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.api.timestamp_range import PRECISIONS, TimestampRange, instants
from slackwater.owner.api.transactions import (
    WHOLE,
    Cut,
    LockRequest,
    TableRead,
    TableWrite,
    TimeRequest,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.owner.api.transactions import Item as OwnedItem
from slackwater.owner.state.shared_clock import SharedTime
from tests.histories.history import Append, AsOf, Item, Outcome, PartitionRead, Read, Values
from tests.histories.history import TableRead as ReadOfTable
from tests.simulation import steps
from tests.simulation.recording import Recorder, Tried
from tests.simulation.steps import Rest, Steps
from tests.simulation.world import KEYS, PARTITIONS, Lists, Process, SimulatedTable, World, granule_of

ATTEMPTS = 6
_ZONES = ("UTC", "Asia/Kolkata")


class Aborted(Exception):
    """The client gives up, and nothing of it was sent."""


class Unknown(Exception):
    """No answer came, and none will."""


@dataclass
class Call:
    """A request that a process works at while its client waits; the client may stop waiting, the process goes on."""

    process: Process
    work: Steps[Any]
    is_done: bool = False
    answer: Any = None
    error: SlackwaterError | None = None

    def run(self) -> Steps[None]:
        try:
            self.answer = yield from self.work
        except SlackwaterError as error:
            self.error = error
        self.is_done = True


@dataclass
class Client:
    """One client, of `process` or elsewhere; `spawn` starts what goes on by itself at a process."""

    world: World
    recorder: Recorder
    name: str
    process: Process
    is_embedded: bool
    spawn: Callable[[Process, Steps[None]], None]
    tried: Tried | None = None
    order: int = 0

    def at(self) -> Process:
        """The process that it talks to now."""
        if self.process.is_alive and (self.is_embedded or not self.world.chance(0.2)):
            return self.process
        return self.world.any_process()

    def run(self) -> Steps[None]:
        """One transaction after the other."""
        world = self.world
        for _ in range(world.settings.transactions):
            yield None
            self.order += 1
            self.tried = tried = Tried(world.new_id(), self.name, self.order, world.tick())
            self.recorder.tried.append(tried)
            body = self._lone(tried) if world.chance(world.settings.lone) else _Transaction(self, tried).run()
            try:
                yield from body
                tried.ended(Outcome.COMMITTED, world.tick())
            except (CommitUnknown, Unknown) as error:
                tried.ended(Outcome.UNKNOWN, world.tick(), error)
            except InvalidArgument:
                raise
            except (SlackwaterError, Aborted) as error:
                tried.ended(Outcome.ABORTED, world.tick(), f"{type(error).__name__}: {error}")
            self.tried = None

    def called(self, work: Callable[[Process, bool], Steps[Any]]) -> Steps[Any]:
        """The answer to a request. What is not of the process itself may miss the answer, and ask again.

        Raises Unknown where no answer ever came.
        """
        world, is_replay = self.world, False
        if self.is_embedded:
            return (yield from work(self.process, False))
        for _ in range(3):
            process = self.at()
            call = Call(process, work(process, is_replay))
            running = call.run()
            self.spawn(process, running)
            # What is abandoned is closed, also before its first step, and is not done.
            while inspect.getgeneratorstate(running) != inspect.GEN_CLOSED and not world.goes_wrong():
                yield Rest.A_WHILE
            is_lost = not call.is_done or world.goes_wrong()
            if not is_lost and call.error is None:
                return call.answer
            if not is_lost and not isinstance(call.error, CommitUnknown):
                if is_replay:
                    # The first one may still be under way.
                    raise Unknown from call.error
                raise call.error  # type: ignore[misc]
            is_replay = True
            if world.chance(0.4):
                break
        raise Unknown

    def _lone(self, tried: Tried) -> Steps[None]:
        """A commit to one table by somebody who knows of no transactions: it reads first, or appends blindly."""
        world = self.world
        process, table = self.at(), world.random.choice(world.tables)
        yield None
        version = process.owner.get_commits(table.table_id, 0).latest_version
        yield None
        lists = world.lists(process, table, version)
        partition = world.random.choice(PARTITIONS)
        is_blind = world.chance(0.4)
        if not is_blind:
            tried.operations.append(PartitionRead(table.name, partition, _inside(lists, table, partition)))
        appended = [_appended(self, tried, table, partition, 0)]
        yield None
        for _ in range(ATTEMPTS):
            request = CommitRequest(
                table.table_id, tried.id, version + 1, [_info(tried), _add(tried, appended)], is_blind
            )
            tried.was_sent = True

            def send(at: Process, again: bool, request: CommitRequest = request) -> Steps[Any]:
                return steps.lone_commit(world, at, replace(request, is_replay=again))

            outcome = yield from self.called(send)
            if isinstance(outcome, CommitResponse):
                tried.versions, tried.commit_timestamp_ms = (
                    {table.name: outcome.commit.version},
                    outcome.commit.timestamp_ms or None,
                )
                return
            assert isinstance(outcome, CommitConflict)
            yield None
            if self._is_own(tried, table, version + 1, outcome.latest_version):
                raise Unknown
            if not is_blind and self._wrote(table, version + 1, outcome.latest_version, {partition}):
                raise Aborted("somebody wrote what was read")
            version = outcome.latest_version
        raise Aborted("others were faster")

    def _commits(self, table: SimulatedTable, first: int, last: int) -> list[Lists]:
        """What the versions added, by item; with them, who wrote them is not told."""
        process = self.at()
        found = []
        for version in range(first, last + 1):
            before, now = (self.world.lists(process, table, v) for v in (version - 1, version))
            found.append({item: values for item, values in now.items() if values != before.get(item, ())})
        return found

    def _wrote(self, table: SimulatedTable, first: int, last: int, partitions: set[str]) -> bool:
        """Whether a version in `[first, last]` changed one of the partitions; WHOLE is any."""
        changed = {item.partition for commit in self._commits(table, first, last) for item in commit}
        return bool(changed & partitions) or (WHOLE in partitions and bool(changed))

    def _is_own(self, tried: Tried, table: SimulatedTable, first: int, last: int) -> bool:
        own = {operation.value for operation in tried.operations if isinstance(operation, Append)}
        return any(
            not own.isdisjoint(values) for commit in self._commits(table, first, last) for values in commit.values()
        )


@dataclass
class _Transaction:
    """A transaction over many tables, as `slackwater.lake.transaction` has it."""

    client: Client
    tried: Tried
    is_locking: bool = False
    range: TimestampRange = field(init=False)
    cut: Cut = field(init=False)
    bases: dict[str, int] = field(default_factory=dict)
    read: dict[str, set[str]] = field(default_factory=dict)
    appended: dict[str, list[Append]] = field(default_factory=dict)
    locked: dict[str, bool] = field(default_factory=dict)
    held: list[SimulatedTable] = field(default_factory=list)
    ahead_ms: int = 0
    is_moving: bool = True
    was_told: bool = False

    def run(self) -> Steps[None]:
        world = self.client.world
        settings, random = world.settings, world.random
        try:
            yield from self._begin()
            will_ask = world.chance(settings.asks)
            self.is_locking = world.chance(settings.locks)
            self.is_moving = world.chance(0.8)
            if will_ask and world.chance(0.3):
                self.held = random.sample(world.tables, random.randrange(1, len(world.tables) + 1))
            if will_ask and world.chance(0.2):
                self.ahead_ms = random.choice([1, 5, 30])
            likely_read = random.choice([0.0, settings.reads, settings.reads, 1.0])
            for number in range(random.randrange(2, 6)):
                yield None
                if will_ask and world.chance(0.7 if number == 0 else 0.2):
                    yield from self._ask()
                elif world.chance(likely_read):
                    yield from self._read(self._some_table())
                else:
                    yield from self._append(self._some_table())
                if self.locked and world.chance(0.2):
                    self.client.at().owner.keep_alive(self.tried.id)
            yield None
            if world.chance(0.05):
                raise Aborted("the client changed its mind")
            yield from self._commit()
        except (SlackwaterError, Aborted) as error:
            if self.was_told and not isinstance(error, CommitUnknown):
                self.client.at().owner.end(self.tried.id)
            raise

    def _some_table(self) -> SimulatedTable:
        world = self.client.world
        return world.tables[0] if world.chance(world.settings.contention) else world.random.choice(world.tables)

    def _begin(self) -> Steps[None]:
        self.cut = self.client.at().owner.cut()
        self._seen(self.cut)
        self.tried.owner_time_ms = self.cut.timestamp_ms
        self.range = TimestampRange(self.cut.timestamp_ms - 1)
        yield None

    def _seen(self, cut: Cut) -> None:
        self.client.recorder.cuts.append({table.name: table.version or 0 for table in cut.tables})

    def _lock(self, tables: Sequence[SimulatedTable], is_exclusive: bool) -> Steps[None]:
        wanted = [
            table
            for table in tables
            if not (self.locked.get(table.name) or self.locked.get(table.name) is is_exclusive)
        ]
        if not wanted:
            return
        self.was_told = True
        items = [OwnedItem(table.table_id) for table in wanted]
        request = LockRequest(self.tried.id, self.cut.timestamp_ms, items, is_exclusive, 0.0)
        yield from steps.locked(self.client.at(), request)
        for table in wanted:
            self.locked[table.name] = is_exclusive
        if not self.bases:
            yield None
            self.cut = self.client.at().owner.cut()
            self._seen(self.cut)

    def _based(self, table: SimulatedTable) -> Steps[int]:
        """The version that the table is seen as."""
        if table.name not in self.bases:
            yield None
            process = self.client.at()
            if self.is_locking and table.name in self.locked:
                version = process.owner.get_commits(table.table_id, 0).latest_version
                _, timestamp_ms = self._stamp(process, table, version)
            else:
                at = self.cut.named(table.name)
                assert at is not None
                assert at.version is not None
                version, timestamp_ms = at.version, at.timestamp_ms or 0
            self.bases[table.name] = version
            self.range = self.range.above(timestamp_ms)
            if self.range.is_empty:
                raise Aborted("what is read came later than the time that was told")
        return self.bases[table.name]

    def _stamp(self, process: Process, table: SimulatedTable, version: int) -> tuple[int, int]:
        now = next(known for known in process.owner.tables() if known.table_id == table.table_id)
        return now.ratified_version, now.timestamp_ms

    def _read(self, table: SimulatedTable) -> Steps[None]:
        if self.is_locking:
            yield from self._lock([table], is_exclusive=table in self.held)
        version = yield from self._based(table)
        world = self.client.world
        yield None
        lists = dict(world.lists(self.client.at(), table, version))
        for append in self.appended.get(table.name, ()):
            lists[append.item] = (*lists.get(append.item, ()), append.value)
        partition = world.random.choice(PARTITIONS)
        kind = world.random.choice(["table", "partition", "item", "item"])
        if kind == "table":
            self.tried.operations.append(ReadOfTable(table.name, lists))
        elif kind == "partition":
            self.tried.operations.append(PartitionRead(table.name, partition, _inside(lists, table, partition)))
        else:
            item = Item(table.name, partition, world.random.choice(KEYS))
            self.tried.operations.append(Read(item, lists.get(item, ())))
        self.read.setdefault(table.name, set()).add(WHOLE if kind == "table" else partition)

    def _append(self, table: SimulatedTable) -> Steps[None]:
        if self.is_locking:
            yield from self._lock([table], is_exclusive=True)
        yield from self._based(table)
        partition = self.client.world.random.choice(PARTITIONS)
        number = sum(map(len, self.appended.values()))
        append = _appended(self.client, self.tried, table, partition, number)
        self.appended.setdefault(table.name, []).append(append)

    def _ask(self) -> Steps[None]:
        world, random = self.client.world, self.client.world.random
        if self.held and not self.range.was_asked:
            yield from self._lock(self.held, is_exclusive=True)
        precision = random.choice(["millisecond", "millisecond", "centisecond", "second", random.choice(PRECISIONS)])
        zone = random.choice(_ZONES)
        items = [OwnedItem(world.tables[i].table_id) for i, t in enumerate(world.tables) if t.name in self.appended]
        request = TimeRequest(self.tried.id, self.range, precision, zone, items, self.ahead_ms)
        self.was_told = True
        yield None
        self.range = self.client.at().owner.narrow(request)
        first, last = instants(self.range.low_ms + 1, precision, zone)
        self.tried.asked.append((first, last + 1))
        if precision == "millisecond":
            self.tried.row_timestamps_ms.append(self.range.low_ms + 1)

    def _commit(self) -> Steps[None]:
        world, tried, is_replay = self.client.world, self.tried, False
        if not self.read and not self.appended:
            raise Aborted("nothing was done")
        for _ in range(ATTEMPTS):
            request = self._request(is_replay)
            tried.was_sent = True

            def send(at: Process, again: bool, request: TransactionRequest = request) -> Steps[Any]:
                return steps.transaction(world, at, replace(request, is_replay=request.is_replay or again))

            outcome = yield from self.client.called(send)
            if isinstance(outcome, TransactionResponse):
                tried.commit_timestamp_ms = outcome.timestamp_ms
                tried.versions = {world.table(t).name: answer.commit.version for t, answer in outcome.commits.items()}
                return
            yield None
            for table_id, latest in sorted(outcome.latest_versions.items()):
                is_replay = self._follow(world.table(table_id), latest) or is_replay
        if is_replay:
            raise Unknown
        raise Aborted("others were faster")

    def _follow(self, table: SimulatedTable, latest: int) -> bool:
        """Go behind what others committed; whether our own commit is among it."""
        first = self.bases[table.name] + 1
        if self.client._is_own(self.tried, table, first, latest):
            return True
        if self.client._wrote(table, first, latest, self.read.get(table.name, set())):
            raise Aborted("somebody wrote what was read")
        self.bases[table.name] = latest
        return False

    def _request(self, is_replay: bool) -> TransactionRequest:
        world, tried = self.client.world, self.tried
        reads = [
            TableRead(table.table_id, self.bases[table.name], _granules(self.read[table.name]))
            for table in world.tables
            if table.name in self.read
        ]
        writes = []
        for table in world.tables:
            appended = self.appended.get(table.name)
            if appended:
                adds = [
                    _add(tried, [append for append in appended if append.item.partition == partition])
                    for partition in PARTITIONS
                    if any(append.item.partition == partition for append in appended)
                ]
                may_move = self.is_moving and table.name not in self.read
                writes.append(TableWrite(table.table_id, self.bases[table.name] + 1, [_info(tried), *adds], may_move))
        return TransactionRequest(tried.id, self.range, reads, writes, bool(self.locked), is_replay)


def slice_at(world: World, recorder: Recorder, process: Process) -> Steps[None]:
    """A time slice at some instant of the past, or now."""
    at_ms, begin = _instant(world, recorder, process), world.tick()
    lists: dict[Item, Values] = {}
    try:
        cut = yield from steps.time_slice(process, at_ms)
        yield None
        for table in world.tables:
            at = cut.named(table.name)
            assert at is not None
            lists |= world.lists(process, table, world.version_as_of(process, at, at_ms))
    except TimestampOutOfRange:
        return
    except InvalidArgument:
        raise
    except SlackwaterError:
        return
    tables = frozenset(table.name for table in world.tables)
    recorder.slices.append(AsOf(f"slice{len(recorder.slices)}", at_ms, begin, world.tick(), lists, tables))


def _instant(world: World, recorder: Recorder, process: Process) -> int:
    now_ms = process.owner.database.read(lambda c: SharedTime.of(c, process.clock).now_ms)
    given = [tried.commit_timestamp_ms for tried in recorder.tried if tried.commit_timestamp_ms]
    earlier = [answer.at_ms for answer in recorder.slices]
    past = [at_ms + step for at_ms in given for step in (-1, 0, 1)] + earlier
    chosen = now_ms if not past or world.chance(0.5) else world.random.choice(past)
    return max(chosen, world.first_ms)


def _granules(read: set[str]) -> Sequence[str]:
    return (WHOLE,) if WHOLE in read else [granule_of(partition) for partition in sorted(read)]


def _inside(lists: Lists, table: SimulatedTable, partition: str) -> Lists:
    return {item: values for item, values in lists.items() if item[:2] == (table.name, partition)}


def _appended(client: Client, tried: Tried, table: SimulatedTable, partition: str, number: int) -> Append:
    item = Item(table.name, partition, client.world.random.choice(KEYS))
    append = Append(item, f"{client.name}.{client.order}.{number}")
    tried.operations.append(append)
    return append


def _info(tried: Tried) -> dict[str, Any]:
    return {"commitInfo": {"txnId": tried.id, "operation": "WRITE"}}


def _add(tried: Tried, appended: Sequence[Append]) -> dict[str, Any]:
    partition = str(appended[0].item.partition)
    values = orjson.dumps([[append.item.key, append.value] for append in appended]).decode()
    node = {"path": f"{tried.id}-{partition}.parquet", "partitionValues": {"p": partition}, "size": 1}
    return {"add": {**node, "modificationTime": 1, "dataChange": True, "tags": {"values": values}}}

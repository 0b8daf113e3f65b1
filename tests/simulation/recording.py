"""What the clients of a simulated world did and were told, and the history that it makes once all is over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

from slackwater.owner.state.commit_content import timestamp_of
from slackwater.protocol.actions.file_names import commit_path
from tests.histories.checker import check
from tests.histories.history import AsOf, History, Operation, Outcome, Transaction
from tests.simulation.world import Lists, World, actions_in, after


@dataclass
class Tried:
    """One try of a transaction, while it goes on. `was_sent`: nobody but the logs can say that it did not commit."""

    id: str
    client: str
    order: int
    begin: int
    end: int = 0
    outcome: Outcome = Outcome.ABORTED
    was_sent: bool = False
    operations: list[Operation] = field(default_factory=list)
    commit_timestamp_ms: int | None = None
    row_timestamps_ms: list[int] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    owner_time_ms: int | None = None
    why: str = ""

    def ended(self, outcome: Outcome, at: int, why: object = "") -> None:
        self.outcome, self.end, self.why = outcome, at, str(why)


@dataclass
class Recorder:
    """All that the history is made of. `cuts` are the versions of tables, by name, that somebody saw as one state."""

    tried: list[Tried] = field(default_factory=list)
    slices: list[AsOf] = field(default_factory=list)
    cuts: list[dict[str, int]] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


def faults_of(world: World, recorder: Recorder) -> list[str]:
    """What is wrong, a line each; `world` is at rest, and all of its commits are in `_delta_log`."""
    final: Lists = {}
    logs: dict[str, dict[int, int]] = {}
    found: dict[str, dict[str, int]] = {}
    wrong: list[str] = []
    for table in world.tables:
        logs[table.name] = {}
        lists: Lists = {}
        version = 0
        while (data := table.store.objects.get(commit_path(version))) is not None:
            actions = actions_in(data)
            txn_id = actions[0]["commitInfo"]["txnId"]
            if table.name in found.setdefault(txn_id, {}):
                wrong.append(f"{txn_id} is versions {found[txn_id][table.name]} and {version} of {table.name}")
            found[txn_id][table.name] = version
            logs[table.name][version] = timestamp_of(data)
            lists = after(lists, table.name, actions)
            version += 1
        final |= lists
    for tried in recorder.tried:
        if tried.outcome is Outcome.UNKNOWN:
            tried.versions = found.get(tried.id, {})
        elif tried.outcome is Outcome.COMMITTED and tried.versions != found.get(tried.id, {}):
            wrong.append(f"{tried.id} was told {tried.versions}, and the logs have {found.get(tried.id, {})}")
    wrong += _torn(recorder.cuts, found)
    history = History(tuple(_transaction(tried) for tried in recorder.tried), final, tuple(recorder.slices), logs)
    # A cut is no serializable state by itself: only what commits was validated against what was under way then.
    return wrong + [str(violation) for violation in check(history)]


def _transaction(tried: Tried) -> Transaction:
    return Transaction(
        tried.id,
        tried.client,
        tried.order,
        tried.begin,
        tried.end,
        tried.outcome,
        tuple(tried.operations),
        tried.commit_timestamp_ms,
        tuple(dict.fromkeys(tried.row_timestamps_ms)),
        tuple(tried.asked),
        tried.versions,
        tried.owner_time_ms,
    )


def _torn(cuts: Iterable[dict[str, int]], found: dict[str, dict[str, int]]) -> list[str]:
    """The transactions of which somebody saw one table, and not the other."""
    wrong = set()
    for txn_id, versions in found.items():
        for one, other in combinations(sorted(versions), 2):
            for cut in cuts:
                if (versions[one] <= cut[one]) != (versions[other] <= cut[other]):
                    wrong.add(f"of {txn_id}, {versions}, a cut {cut} has a part")
    return sorted(wrong)

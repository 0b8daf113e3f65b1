"""The checker of recorded histories: values in, verdict out.

history = History(
    transactions=(
        Transaction("a", "c1", 0, 1, 4, COMMITTED, (Read(x, ()), Append(y, 1)), commit_timestamp_ms=10),
        Transaction("b", "c2", 0, 2, 3, COMMITTED, (Read(y, ()), Append(x, 2)), commit_timestamp_ms=11),
    ),
    final={x: (2,), y: (1,)},
)
require_clean(history)   # AssertionError: write skew (G2-item): No serial order has a and b: ...
"""

from __future__ import annotations

from typing import NamedTuple

from tests.histories.batches import batch_violations
from tests.histories.dependencies import cycle_violations, edges_of
from tests.histories.groups import group_violations
from tests.histories.history import History, Item, Outcome
from tests.histories.integrity import final_violations, reads_of_others
from tests.histories.recorded import RecordedHistory
from tests.histories.slices import slice_violations
from tests.histories.timestamps import order_violations, stamp_violations, version_violations
from tests.histories.violations import Violation


class Dependency(NamedTuple):
    """`source` comes before `target`, both ids, for what they did to `item`; `kind` is ww, wr or rw."""

    source: str
    target: str
    kind: str
    item: Item


def check(history: History, *, opaque: bool = False) -> tuple[Violation, ...]:
    """What is wrong with a history: nothing where it is strictly serializable in the order of its timestamps,
    and each micro-batch of its streams is there once.

    With `opaque`, transactions that did not commit must have read of one state too, as those do that read one snapshot;
    else only that they read no value that never was.
    Raises ValueError where the record contradicts itself.
    """
    recorded = RecordedHistory(history)
    violations = list(final_violations(recorded))
    reads = {}
    for number in range(len(recorded.transactions)):
        is_judged = opaque or recorded.counts[number]
        seen = reads_of_others(recorded, number, violations, repeatable=is_judged)
        if is_judged:
            reads[number] = seen
    edges = edges_of(recorded, reads)
    violations += cycle_violations(recorded, edges, reads)
    violations += order_violations(recorded, edges)
    violations += stamp_violations(recorded)
    violations += version_violations(recorded)
    violations += group_violations(recorded)
    violations += slice_violations(recorded)
    violations += batch_violations(recorded)
    return tuple(dict.fromkeys(violations))


def require_clean(history: History, *, opaque: bool = False) -> None:
    """Raises AssertionError with a line for each violation of `check`."""
    violations = check(history, opaque=opaque)
    if violations:
        committed = sum(transaction.outcome is Outcome.COMMITTED for transaction in history.transactions)
        lines = "\n".join(f"  {violation}" for violation in violations)
        raise AssertionError(f"a history of {committed} committed transactions is broken:\n{lines}")


def dependencies(history: History) -> tuple[Dependency, ...]:
    """The direct dependencies of what committed: how much a run had to get wrong."""
    recorded = RecordedHistory(history)
    reads = {
        number: reads_of_others(recorded, number, [], repeatable=True)
        for number in range(len(recorded.transactions))
        if recorded.counts[number]
    }
    names = [transaction.id for transaction in recorded.transactions]
    return tuple(Dependency(names[edge[0]], names[edge[1]], *edge[2:4]) for edge in edges_of(recorded, reads))

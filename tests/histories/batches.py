"""Each micro-batch of a stream is there once, in all of its tables, in the order of the batches."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

from tests.histories.history import Batch, Stream
from tests.histories.recorded import RecordedHistory
from tests.histories.violations import Kind, Violation


def batch_violations(recorded: RecordedHistory) -> Iterator[Violation]:
    """What the attempts that count come to: one for each batch that is done, at most one for any other.

    Raises ValueError where a batch is of a stream that the record does not know.
    """
    landed: dict[Batch, list[int]] = defaultdict(list)
    known = {stream.query for stream in recorded.history.streams}
    for number, transaction in enumerate(recorded.transactions):
        if transaction.batch is None:
            continue
        if transaction.batch.query not in known:
            raise ValueError(f"transaction {transaction.id} is of a stream that is not known, {transaction.batch}")
        if recorded.counts[number]:
            landed[transaction.batch].append(number)
    for stream in recorded.history.streams:
        of_stream = {batch.number: numbers for batch, numbers in landed.items() if batch.query == stream.query}
        yield from _not_once(recorded, stream, of_stream)
        yield from _not_in_order(recorded, stream, of_stream)


def _not_once(recorded: RecordedHistory, stream: Stream, landed: dict[int, list[int]]) -> Iterator[Violation]:
    for number in sorted(stream.done - landed.keys()):
        message = f"Batch {number} of {stream.query} is done, and no transaction that committed has it."
        yield Violation(Kind.BATCH_LOST, (), message)
    for number, attempts in sorted(landed.items()):
        if len(attempts) > 1:
            names = " and ".join(map(recorded.name, attempts))
            message = f"Batch {number} of {stream.query} was committed by {names}."
            yield Violation(Kind.BATCH_TWICE, recorded.ids(attempts), message)
        for attempt in attempts:
            lacking = sorted(stream.tables - recorded.transactions[attempt].versions.keys())
            if lacking:
                name = recorded.name(attempt)
                message = f"Batch {number} of {stream.query} is committed as {name}, and not in {', '.join(lacking)}."
                yield Violation(Kind.BATCH_IN_PART, recorded.ids([attempt]), message)


def _not_in_order(recorded: RecordedHistory, stream: Stream, landed: dict[int, list[int]]) -> Iterator[Violation]:
    stamps = [
        (stamp, attempt, number)
        for number, attempts in sorted(landed.items())
        for attempt in attempts
        if (stamp := recorded.timestamps_ms[attempt]) is not None
    ]
    for (before, earlier, first), (after, later, second) in itertools.pairwise(stamps):
        if first < second and after <= before:
            message = (
                f"Batch {first} of {stream.query} is {recorded.name(earlier)}, and batch {second} is "
                f"{recorded.name(later)}."
            )
            yield Violation(Kind.BATCHES_OUT_OF_ORDER, recorded.ids((earlier, later)), message)

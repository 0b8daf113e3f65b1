"""All that is wrong with a recorded run."""

from __future__ import annotations

from tests.histories.checker import check
from tests.histories.history import Outcome
from tests.histories.recording import Run
from tests.histories.violations import Kind

# An optimistic transaction that will not commit may lack what comes before it in the order of timestamps, but was not
# ratified when it began. It saw one state all the same, no transaction in part, and nothing without its cause.
_OF_THE_ORDER = {
    Kind.WRITE_SKEW,
    Kind.PHANTOM,
    Kind.STALE_READ,
    Kind.READ_OF_LATER_WRITE,
    Kind.WRITE_UNDER_READ_STAMP,
    Kind.WRITE_BEFORE_WRITE,
}
# One that lost its locks meanwhile reads what is newest, and is told at its end.
_OF_LOST_LOCKS = {Kind.READ_SKEW, Kind.PARTIAL_VISIBILITY}


def faults_of(run: Run) -> list[str]:
    """A sentence for each fault: of the history, of states that were seen, of files, of logs."""
    found = _violations(run)
    return found + run.torn_cuts() + run.wrong_sights() + run.wrong_files() + run.wrong_ids() + run.wrong_states()


def _violations(run: Run) -> list[str]:
    """What the checker finds in what committed, and in what the others saw."""
    strict = check(run.history)
    aborted = {t.id for t in run.history.transactions if t.outcome is not Outcome.COMMITTED}
    of_all = [
        violation
        for violation in check(run.history, opaque=True)
        if not (violation.kind in _OF_THE_ORDER and aborted.intersection(violation.transactions))
        and not (violation.kind in _OF_LOST_LOCKS and (aborted & run.locking).intersection(violation.transactions))
    ]
    return [str(violation) for violation in dict.fromkeys([*strict, *of_all])]

"""Deadlines and delays of repeated attempts, on a clock of the test."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from slackwater.waiting import Deadline, backoff


@dataclass
class Seconds:
    """A clock that moves by `pass_by` only, and the sleeps requested."""

    now_s: float = 100.0
    slept_s: list[float] = field(default_factory=list)

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds

    def deadline(self, timeout_s: float) -> Deadline:
        return Deadline(timeout_s, backoff(1.0, 4.0), self.slept_s.append, lambda: self.now_s)


def test_delays_double_up_to_the_longest() -> None:
    assert list(islice(backoff(1.0, 5.0), 5)) == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_elapsed_time_uses_up_the_deadline() -> None:
    seconds = Seconds()
    deadline = seconds.deadline(10.0)
    seconds.pass_by(9.5)
    assert deadline.left_s == 0.5
    seconds.pass_by(1.0)
    assert deadline.left_s == -0.5


def test_slept_time_uses_up_the_deadline_while_the_clock_stands_still() -> None:
    seconds = Seconds()
    deadline = seconds.deadline(10.0)
    deadline.sleep(10.0)
    assert seconds.slept_s == [10.0]
    assert deadline.left_s == 0.0


def test_slept_and_elapsed_time_are_not_added() -> None:
    seconds = Seconds()
    deadline = seconds.deadline(10.0)
    deadline.sleep(6.0)
    seconds.pass_by(6.0)
    assert deadline.left_s == 4.0


def test_step_is_at_most_the_remaining_time() -> None:
    seconds = Seconds()
    deadline = seconds.deadline(3.5)
    assert deadline.next_s() == 1.0
    seconds.pass_by(3.0)
    assert deadline.next_s() == 0.5
    seconds.pass_by(3.0)
    assert deadline.next_s() == 0.0

"""Work that is done for many at once, and the names of processes."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence

import pytest

from slackwater.owner.state.clock import is_dead, this_process
from slackwater.owner.state.group_commit import GroupCommitQueue
from tests.contract.owners import at_once, dead_holder, eventually, foreign_holder


def test_everybody_gets_the_answer_to_their_own_question() -> None:
    sizes: list[int] = []

    def double(questions: Sequence[int]) -> list[int]:
        sizes.append(len(questions))
        return [2 * question for question in questions]

    ask = GroupCommitQueue(double)
    assert at_once(*(lambda n=n: ask(n) for n in range(20))) == [2 * n for n in range(20)]
    assert sum(sizes) == 20


def test_those_who_come_while_a_batch_is_under_way_are_answered_together_and_no_more_than_fit() -> None:
    entered, go_on = threading.Event(), threading.Event()
    batches: list[list[int]] = []

    def work(questions: Sequence[int]) -> Sequence[int]:
        batches.append(list(questions))
        entered.set()
        assert go_on.wait(30)
        return questions

    ask = GroupCommitQueue(work, most=3)

    def first() -> int:
        return ask(0)

    def later(number: int) -> int:
        assert entered.wait(30)
        return ask(number)

    def release() -> None:
        assert entered.wait(30)
        eventually(lambda: len(ask._waiting) == 5)
        go_on.set()

    *answers, _ = at_once(first, *(lambda n=n: later(n) for n in range(1, 6)), release)
    assert answers == [0, 1, 2, 3, 4, 5]
    assert [len(batch) for batch in batches] == [1, 3, 2]


def test_what_the_work_raises_everybody_in_the_batch_is_raised_and_nobody_after_them() -> None:
    failing = [True]

    def work(questions: Sequence[int]) -> Sequence[int]:
        if failing:
            raise OSError("no")
        return questions

    ask = GroupCommitQueue(work)
    assert [type(error) for error in at_once(*[lambda: ask(1)] * 3)] == [OSError] * 3
    failing.clear()
    assert ask(2) == 2


def test_too_few_answers_are_an_error_rather_than_a_wait() -> None:
    ask: GroupCommitQueue[int, int] = GroupCommitQueue(lambda questions: [])
    with pytest.raises(ValueError, match="shorter"):
        ask(1)


def test_a_process_that_lives_is_not_taken_for_dead() -> None:
    assert is_dead(this_process()) is False
    assert is_dead(foreign_holder()) is False


@pytest.mark.parametrize("holder", ["", "host", f"{socket.gethostname()}:x:1", f"{socket.gethostname()}:1", "a:b:c:d"])
def test_a_name_that_nobody_understands_is_not_taken_for_dead(holder: str) -> None:
    assert is_dead(holder) is False


def test_a_process_that_has_ended_is_dead_also_where_its_number_was_given_out_again() -> None:
    assert is_dead(dead_holder()) is True
    assert is_dead(f"{socket.gethostname()}:{os.getpid()}:1") is True

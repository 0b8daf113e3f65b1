"""Work done for many at once: a call that comes while a batch is under way joins the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(eq=False)
class _Waiting(Generic[Q, A]):
    question: Q
    answer: A | None = None
    error: BaseException | None = None
    done: bool = False


class GroupCommitQueue(Generic[Q, A]):
    """Calls of many threads, answered together: `work` gets the questions and gives as many answers, in order.

    What `work` raises, everyone in the batch is raised.
    """

    def __init__(self, work: Callable[[Sequence[Q]], Sequence[A]], most: int = 256) -> None:
        self._work = work
        self._most = most
        self._waiting: list[_Waiting[Q, A]] = []
        self._list_lock = threading.Lock()
        self._turn = threading.Lock()

    def __call__(self, question: Q) -> A:
        entry: _Waiting[Q, A] = _Waiting(question)
        with self._list_lock:
            self._waiting.append(entry)
        # The thread that gets the turn works for all calls that came until then.
        while not entry.done:
            with self._turn:
                if not entry.done:
                    self._run()
        if entry.error is not None:
            raise entry.error
        return entry.answer  # type: ignore[return-value]

    def _run(self) -> None:
        with self._list_lock:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        try:
            answers = self._work([entry.question for entry in batch])
            for entry, answer in zip(batch, answers, strict=True):
                entry.answer = answer
        except BaseException as error:
            for entry in batch:
                entry.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            for entry in batch:
                entry.done = True

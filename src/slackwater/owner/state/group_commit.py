"""Group commit: calls during a batch are processed together in the next batch."""

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
    """Groups the calls of many threads. `work` gets the questions, and returns one answer per question, in order.

    An error of `work` is raised in every call of the batch. `gather` may wait, before each batch, for calls known to
    come soon.
    """

    def __init__(
        self, work: Callable[[Sequence[Q]], Sequence[A]], most: int = 256, gather: Callable[[], None] | None = None
    ) -> None:
        self._work = work
        self._most = most
        self._gather = gather
        self._waiting: list[_Waiting[Q, A]] = []
        self._list_lock = threading.Lock()
        self._turn = threading.Lock()

    def __call__(self, question: Q) -> A:
        entry: _Waiting[Q, A] = _Waiting(question)
        with self._list_lock:
            self._waiting.append(entry)
        # The thread with the lock processes all calls queued so far.
        while not entry.done:
            with self._turn:
                if not entry.done:
                    self._run()
        if entry.error is not None:
            raise entry.error
        return entry.answer  # type: ignore[return-value]

    def _run(self) -> None:
        if self._gather is not None:
            self._gather()
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

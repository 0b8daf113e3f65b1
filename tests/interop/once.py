"""What several tests look at is made once, and where it cannot be made, all of them say why."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar


class Named(Protocol):
    """A case of a catalogue, whose names are unique."""

    @property
    def name(self) -> str: ...


Case = TypeVar("Case", bound=Named)
Made = TypeVar("Made")


def once(make: Callable[[Case], Made]) -> Callable[[Case], Made]:
    """`make`, called once for each case; what it gave or raised the first time, it gives or raises ever after."""
    known: dict[str, Future[Made]] = {}

    def made(case: Case) -> Made:
        if case.name not in known:
            outcome: Future[Made] = Future()
            try:
                outcome.set_result(make(case))
            except Exception as error:  # noqa: BLE001  (raised below, to everybody who asks)
                outcome.set_exception(error)
            known[case.name] = outcome
        return known[case.name].result()

    return made

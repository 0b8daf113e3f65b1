"""How many examples tests of properties try: all of them with `--long`, else a fifth."""

from __future__ import annotations

from hypothesis import settings

LONG = 100
SHORT = 20


def load_profile(is_long: bool) -> None:
    """Have Hypothesis try as many as the run is for. To be called before tests are imported."""
    # No test asserts a time by the clock: the first example of a run pays for every import.
    settings.register_profile("slackwater", deadline=None, max_examples=LONG if is_long else SHORT)
    settings.load_profile("slackwater")


def examples(number: int) -> int:
    """As many as this run tries of `number`."""
    return -(-number * settings().max_examples // LONG)

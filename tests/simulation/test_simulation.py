"""Schedules of many clients, processes, clocks and faults: whatever happens, timestamps are the serialization order.

A failure names its seed: `pytest tests/simulation --seed N` runs that schedule again, the same in every process.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from tests.histories.history import Outcome
from tests.simulation.scheduler import ran
from tests.simulation.world import Template

SHORT, LONG = 48, 6000
PARTS = 4
"""Of the seeds, so that a failure of one does not hide the others."""

FORGETFUL = {
    "rows_kept": 1, "backfills": 0.3, "faults": 0.03, "reads": 0.1, "crashes": 0.0, "locks": 0.0, "lease_ms": 30_000,
    "jumps": 0.0, "joins": 0.0,
}  # fmt: skip
"""Rows of commits are purged while those who made them still wait to hear of it."""


def require_right(template: Template, seed: int) -> None:
    """Raises AssertionError with all that is wrong in the world of `seed`."""
    again = f"seed {seed} (again: pytest tests/simulation --seed {seed})"
    try:
        faults, _ = ran(template, seed)
    except Exception as error:
        raise AssertionError(f"{again}: {type(error).__name__}: {error}") from error
    assert not faults, "\n  ".join([again, *faults])


@pytest.mark.parametrize("part", range(PARTS))
def test_every_schedule_is_serializable_in_the_order_of_its_timestamps(
    template: Template, part: int, request: pytest.FixtureRequest
) -> None:
    chosen = request.config.getoption("--seed")
    total = LONG if request.config.getoption("--long") else SHORT
    seeds = range(part, total, PARTS) if chosen is None else [int(chosen)] if part == 0 else []
    for seed in seeds:
        require_right(template, seed)


@pytest.mark.parametrize("seed", [18, 20, 73, 109, 121, 147])
def test_what_counts_for_so_long_that_its_rows_are_gone_counts_once(template: Template, seed: int) -> None:
    faults, _ = ran(template, seed, FORGETFUL)
    assert not faults, "\n  ".join([f"seed {seed}", *faults])


def test_a_client_whose_request_is_abandoned_before_its_first_step_does_not_wait_for_ever(template: Template) -> None:
    require_right(template, 732)


def test_a_seed_is_one_schedule(template: Template) -> None:
    first, again = ((record.tried, record.slices, record.cuts) for _, record in (ran(template, 1), ran(template, 1)))
    assert first == again


def test_the_schedules_have_in_them_what_they_are_to_try(template: Template) -> None:
    outcomes: Counter[Outcome] = Counter()
    early = joint = slices = 0
    for seed in itertools.count(500_000):
        _, record = ran(template, seed)
        outcomes.update(tried.outcome for tried in record.tried)
        committed = [tried for tried in record.tried if tried.outcome is Outcome.COMMITTED]
        early += sum(bool(tried.row_timestamps_ms) for tried in committed)
        joint += sum(len(tried.versions) > 1 for tried in committed)
        slices += len(record.slices)
        if min(*outcomes.values(), early, joint, slices) >= 3 and len(outcomes) == len(Outcome):
            break
        assert seed < 500_030, (outcomes, early, joint, slices)

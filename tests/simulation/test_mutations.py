"""The simulation finds each fault that is planted in the owner, within the number of seeds that is stated for it."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.errors import SlackwaterError
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.scheduler import ran
from tests.simulation.world import Template

# Faults that take so many seeds that only the long run looks for them.
_MANY_SEEDS = 100


def _case(mutation: Mutation) -> Any:
    marks = [pytest.mark.long] if mutation.seeds > _MANY_SEEDS else []
    return pytest.param(mutation, id=mutation.name.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("mutation", [_case(mutation) for mutation in MUTATIONS])
def test_a_planted_fault_is_found(template: Template, mutation: Mutation) -> None:
    with mutation.planted():
        assert any(_is_wrong(template, mutation, seed) for seed in range(mutation.seeds)), mutation.name


def _is_wrong(template: Template, mutation: Mutation, seed: int) -> bool:
    try:
        faults, _ = ran(template, seed, mutation.focus, mutation.prepared)
    except SlackwaterError:
        # What was broken came to light by itself.
        return True
    return bool(faults)

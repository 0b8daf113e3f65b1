"""The simulation finds each fault that is planted in the owner, within the number of seeds that is stated for it."""

from __future__ import annotations

import pytest

from slackwater.errors import SlackwaterError
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.scheduler import ran
from tests.simulation.world import Template


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
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

"""The catalogue as test parameters, each test's known gaps as strict expected failures."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

import slackwater

from .feature import Feature
from .features import FEATURES


def each(test: str, names: Collection[str] = (), variations: Collection[str] = ()) -> list[Any]:
    """Every feature, or those of these names, for the test called `test`; the `variations` run with `--long`."""
    chosen = [feature for feature in FEATURES if not names or feature.name in names]
    assert not names or len(chosen) == len(names)
    assert {feature.name for feature in chosen} > set(variations)
    return [
        pytest.param(
            feature,
            id=feature.name,
            marks=[*marks(feature, test), *([pytest.mark.long] if feature.name in variations else [])],
        )
        for feature in chosen
    ]


def marks(feature: Feature, test: str) -> list[pytest.MarkDecorator]:
    """What is expected to fail, until it does not: then the test fails, and the catalogue is to be corrected."""
    reason = feature.gaps.get("create") or feature.gaps.get(test)
    if reason is None and not feature.is_plain and not hasattr(slackwater.DeltaTable, "create"):
        reason = "there is no DeltaTable.create yet"
    return [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]

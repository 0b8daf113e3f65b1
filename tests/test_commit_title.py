"""Titles of commits: one form, one change, short enough to be read in a list."""

from __future__ import annotations

import pytest
from tools.commit_title import problem


@pytest.mark.parametrize(
    "title",
    ["fix(log): write no compaction of commits without state", "docs: define terms", "feat(api)!: drop an option"],
)
def test_title_in_the_form_is_accepted(title: str) -> None:
    assert problem(title) is None


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("fix(log): " + "x" * 63, "73 characters"),
        ("Fix the log", "type(scope): imperative"),
        ("fix(log): Write a file", "type(scope): imperative"),
        ("fix(log): write a file.", "type(scope): imperative"),
        ("fix(log): write a file; wrap lines", "one change"),
    ],
)
def test_title_that_breaks_a_rule_is_named(title: str, said: str) -> None:
    assert said in (problem(title) or "")

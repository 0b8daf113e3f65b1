"""What Spark says of names, without names that users never gave."""

from __future__ import annotations

import pytest

from slackwater.spark.session.spark_errors import without_our_names

SAID = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `x` cannot be resolved."


@pytest.mark.parametrize(
    ("suggested", "left"),
    [
        ("`a`, `b`", "`a`, `b`"),
        ("`a`, `__slackwater_row`", "`a`"),
        ("`__slackwater_row`, `a`", "`a`"),
        ("`a`.`b`.`__slackwater_row`", "`a`, `b`"),
        ("`t`.`a`, `t`.`__slackwater_row`", "`t`.`a`"),
        ("`__slackwater_other`.`a`, `b`", "`a`, `b`"),
        ("`a, ``__slackwater_x``].`, `__slackwater_row`", "`a, ``__slackwater_x``].`"),
    ],
)
def test_names_of_this_package_are_not_suggested(suggested: str, left: str) -> None:
    text = f"{SAID} Did you mean one of the following? [{suggested}]. SQLSTATE: 42703"
    assert without_our_names(text) == f"{SAID} Did you mean one of the following? [{left}]. SQLSTATE: 42703"


def test_nothing_is_suggested_where_all_names_are_ours() -> None:
    text = f"{SAID} Did you mean one of the following? [`__slackwater_row`]. SQLSTATE: 42703"
    assert without_our_names(text) == f"{SAID} SQLSTATE: 42703"


def test_what_users_write_stays_as_it_is() -> None:
    text = f"{SAID} In `__slackwater_row` [1]."
    assert without_our_names(text) == text


def test_of_names_that_are_ambiguous_those_are_told_that_users_know() -> None:
    text = "Reference `id` is ambiguous, could be: [`__slackwater_target`.`id`, `s`.`id`]"
    assert without_our_names(text) == "Reference `id` is ambiguous, could be: [`id`, `s`.`id`]"

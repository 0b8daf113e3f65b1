"""Questions for the time in SQL text and in plans: which are found, and what only looks like one."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from slackwater.predicate.sql_split import plan_is_time_dependent
from slackwater.spark.conditions.time_functions import replaced_in_text


def _answer(name: str, digits: int) -> str:
    return f"<{name} {digits}>"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("at < NOW ( )", "at < <now 6>"),
        ("current_timestamp", "<current_timestamp 6>"),
        ("date_sub(current_date, 1) = Curdate()", "date_sub(<current_date 6>, 1) = <curdate 6>"),
        ("unix_timestamp() - unix_timestamp(at)", "<unix_timestamp 6> - unix_timestamp(at)"),
        ("current_time(2) > current_time()", "<current_time 2> > <current_time 6>"),
        ("/* now() */ localtimestamp() -- now()", "/* now() */ <localtimestamp 6> -- now()"),
        (
            "concat('now()', \"current_date\", now, t.now, `now`)",
            "concat('now()', \"current_date\", now, t.now, `now`)",
        ),
        ("t.current_date = `current_date`", "t.current_date = `current_date`"),
        ("builtin.now()", "builtin.now()"),
        ("named_struct('a', 1).current_date", "named_struct('a', 1).current_date"),
        ("current_user() = 'now'", "current_user() = 'now'"),
        ("'never closed, now()", "'never closed, now()"),
    ],
)
def test_functions_are_replaced_where_they_are_called(sql: str, expected: str) -> None:
    assert replaced_in_text(sql, _answer, ()) == expected


def test_a_column_goes_before_a_word_of_its_name() -> None:
    assert replaced_in_text("current_date < current_timestamp", _answer, {"current_date"}) == (
        "current_date < <current_timestamp 6>"
    )
    assert replaced_in_text("current_date()", _answer, {"current_date"}) == "<current_date 6>"


@pytest.mark.parametrize(
    "plan",
    [
        "Project [current_timestamp() AS at#1]",
        "Filter (now() > at#2)",
        "Project [current_date(Some(UTC)) AS day#3]",
        "Project [current_time(6, Some(UTC)) AS t#3]",
        "Project [cast( NOW  as timestamp) AS at#4]",
        "Project [try_cast(today UTC as date) AS at#4]",
        "Project [to_timestamp(now, None, TimestampType, Some(UTC), true) AS at#4]",
    ],
)
def test_a_plan_shows_that_it_asks(plan: str) -> None:
    assert plan_is_time_dependent(plan)


@pytest.mark.parametrize(
    "plan",
    [
        "Project [now()#1 AS at#2]",
        "Project [cast(now#5 as timestamp) AS at#4]",
        "Project [cast(nowhere as timestamp) AS at#4]",
        "Filter (word#3 = now)",
        "Project [to_date(today, Some(yyyy), Some(UTC), true) AS at#4]",
        "Project [unix_timestamp(at#1, yyyy, Some(UTC), true) AS s#2, current_user() AS u#3]",
    ],
)
def test_a_plan_may_only_look_as_if_it_asked(plan: str) -> None:
    assert not plan_is_time_dependent(plan)

"""Texts of Spark's plans: for users, without the prefix of internal column names, and as a source of conditions."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from pyspark.sql import Column, DataFrame

from slackwater.errors import SlackwaterError
from slackwater.predicate.sql_split import plan_is_time_dependent
from slackwater.protocol.schema_changes.column_names import OWN_PREFIX
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import plain_method
from slackwater.spark.session.local_frame import local_frame
from slackwater.spark.session.temporary_settings import with_settings

_OURS_IN_PLAN = re.compile(rf"\b{OWN_PREFIX}_(\w+)")
# Leaf nodes of plans with the same rows in each run.
_STEADY_LEAVES = frozenset({"LogicalRelation", "LocalRelation", "Range"})
_PARSED_FILTER = re.compile(r"(?m)^'?Filter (.*)$")
# The first line lists the columns, and column names can hold any text.
_ANALYSED = re.compile(r"(?s)== Analyzed Logical Plan ==\n[^\n]*\n(.*?)\n== Optimized Logical Plan ==")
_ALL_FIELDS = 2**31 - 1
_WHOLE_PLANS = {
    "spark.sql.debug.maxToStringFields": str(_ALL_FIELDS),
    # Spark's own default: Spark appends a suffix to the text.
    "spark.sql.maxPlanStringLength": str(2**31 - 16),
    # A pattern without matches.
    "spark.sql.redaction.string.regex": "(?!)",
}


def explain(original: Callable[..., None], self: DataFrame, *args: Any, **kwargs: Any) -> None:
    """Replace `DataFrame.explain`, with the same arguments: print the plan with readable column names."""
    del self
    with io.StringIO() as printed:
        with redirect_stdout(printed):
            original(*args, **kwargs)
        sys.stdout.write(plan_in_words(printed.getvalue()))


def explained(frame: DataFrame) -> DataFrame:
    """Return the result of EXPLAIN with readable column names."""
    rows = [(plan_in_words(row[0]),) for row in frame.collect()]
    return local_frame(frame.sparkSession, rows, frame.schema)


def plan_in_words(text: str) -> str:
    """Return a plan without the prefix of this package's internal names: `dv_words#7` for a column, `view_3`."""
    return _OURS_IN_PLAN.sub(lambda found: f"view_{found[1]}" if found[1].isdigit() else found[1], text)


def reads_the_same(frame: DataFrame) -> bool:
    """Return whether `frame` certainly has the same rows in each run.

    True if the frame reads only files or local rows and is deterministic. Always False for Connect, because Connect
    does not expose plans.
    """
    if is_connect(frame.sparkSession):
        return False
    analyzed = frame._jdf.queryExecution().analyzed()
    leaves = analyzed.collectLeaves()
    names = {leaves.apply(at).nodeName() for at in range(leaves.size())}
    return (
        bool(analyzed.deterministic()) and names <= _STEADY_LEAVES and not plan_is_time_dependent(analysed_text(frame))
    )


def analysed_text(frame: DataFrame) -> str:
    """Return the complete text of the analysed plan of `frame`, regardless of the session's settings for plan texts."""
    with with_settings(frame.sparkSession, _WHOLE_PLANS):
        if not is_connect(frame.sparkSession):
            return _tree_text(frame._jdf.queryExecution().analyzed())
        client: Any = frame.sparkSession.client
        plan: Any = frame._plan
        told = client.explain_string(plan.to_proto(client), explain_mode="extended")
    found = _ANALYSED.search(told)
    if found is None:
        raise SlackwaterError("Spark explains a plan in an unexpected form: it has no section 'Analyzed Logical Plan'")
    return found[1]


def parsed_condition(frame: DataFrame, condition: Column) -> str | None:
    """Return Spark's text of `condition` before the resolution of names in the columns of `frame`: `('key = a)`.

    None if the plan has the condition in an unknown form.
    """
    filtered = plain_method(frame, "filter")(condition)
    if is_connect(frame.sparkSession):
        client: Any = frame.sparkSession.client
        plan: Any = filtered._plan
        told = client.explain_string(plan.to_proto(client), explain_mode="extended")
    else:
        told = _tree_text(filtered._jdf.queryExecution().logical())
    found = _PARSED_FILTER.search(told)
    return None if found is None else found[1]


def _tree_text(plan: Any) -> str:
    from py4j.protocol import Py4JError

    try:
        return str(plan.treeString(False, False, _ALL_FIELDS, False, False))
    except Py4JError:
        # Older releases of Spark have one flag fewer.
        return str(plan.treeString(False, False, _ALL_FIELDS, False))

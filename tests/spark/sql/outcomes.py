"""What a statement gives: columns and rows, or a plan, or an error, without what differs from one run to the next."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

# Ids of expressions, plans, jobs, objects and views, and the trace behind a message.
_PASSING = (
    (re.compile(r"\n\s*(?:JVM stacktrace:|at [\w.$]+\().*", re.DOTALL), ""),
    (re.compile(r"\n*Driver stacktrace:.*", re.DOTALL), ""),
    (re.compile(r"#x?\d+L?"), "#"),
    (re.compile(r"\bo\d+\."), "o."),
    (re.compile(r"(plan_id=|plan id[:=] ?|stage |TID |Task |task |RDD\[|\[id=#?)\d+(\.\d+)?"), r"\1"),
    (re.compile(r"@[0-9a-f]{4,}"), "@"),
    (re.compile(r"(CTERelation(?:Def|Ref)|UnionLoop(?:Ref)?) \d+"), r"\1"),
    (re.compile(r"\b_(?:df|pyspark)_\w+"), "_df"),
    (re.compile(r"(Created Time|Last Access|createdTime|created_time)[^|,\n]*"), r"\1"),
)


def outcome(call: Callable[[], DataFrame], is_ordered: bool, is_run: bool = True) -> tuple[Any, ...]:
    """The schema and the rows of the frame that `call` makes, or class, condition and text of what it raises.

    Rows count in their order where `is_ordered`. A query that is not to be run has its analyzed plan in their place.
    """
    try:
        frame = call()
        if not is_run and not (plan := _plan(frame)).startswith("CommandResult"):
            return ("plan", frame.schema.json(), _lasting(plan))
        schema, found = frame.schema, [_lasting(repr(row)) for row in frame.collect()]
    except Exception as error:  # noqa: BLE001  (whatever it is, the other session must raise it too)
        condition = getattr(error, "getCondition", lambda: None)()
        return ("error", type(error), condition, _lasting(str(error)))
    # Columns, nullability and metadata.
    return ("rows", schema.json(), found if is_ordered else sorted(found))


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().toString())


def _lasting(text: str) -> str:
    for pattern, instead in _PASSING:
        text = pattern.sub(instead, text)
    return text

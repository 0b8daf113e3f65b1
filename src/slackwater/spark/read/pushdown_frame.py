"""Frames of a table that read less when less is asked for: `where` plans the scan anew with fewer files.

Where executors read the rows in Python, Spark cannot tell them which columns it needs: there `select` plans the scan
anew, too. What it needs is told by the plan of a classic session, and by the names in the message of one of Connect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.predicate.predicate import And, Constant, Predicate, columns_of
from slackwater.spark.conditions.column_trees import has_variables
from slackwater.spark.session.classic_connect import (
    attribute_ids,
    is_connect,
    plain_method,
    same_columns,
    same_plan,
    with_methods,
)

_WORD = re.compile(r"\w+")
_LESSEN = "_slackwater_lessen"
# Spark lets these name columns of the frame before a selection.
_NAMES_MORE = ("filter", "where", "orderBy", "sort", "sortWithinPartitions")
# Messages of Connect's expressions: those in which only their parts name columns, and those that name none at all.
_PLAIN_KINDS = frozenset(
    {
        "Alias",
        "CallFunction",
        "Cast",
        "Expression",
        "FrameBoundary",
        "LambdaFunction",
        "NamedArgumentExpression",
        "SortOrder",
        "UnresolvedExtractValue",
        "UnresolvedFunction",
        "UnresolvedNamedLambdaVariable",
        "UpdateFields",
        "Window",
        "WindowFrame",
    }
)
_WITHOUT_NAMES = frozenset({"DataType", "ExpressionCommon", "Literal"})


class ReplannableScan(Protocol):
    """A scan that can be planned again for a part of what it reads."""

    @property
    def by_arrow(self) -> bool:
        """Whether Spark cannot tell the scan which columns, and which rows, are needed."""
        ...

    @property
    def finds_files_later(self) -> bool:
        """Whether only who reads the frame finds out which files there are, so that `files_for` cannot tell."""
        ...

    def files_for(self, predicate: Predicate | None) -> pa.Table:
        """The files that may hold a match for `predicate`."""
        ...

    def frame_of(
        self, files: pa.Table, needed: frozenset[str] | None = None, predicate: Predicate | None = None
    ) -> DataFrame:
        """The rows of `files`; columns that are not `needed` are not read, and an error where they are used.

        Rows that cannot match `predicate` may be missing.
        """
        ...

    def predicate(self, condition: Any) -> Predicate:
        """What `condition` says about files."""
        ...

    def predicate_of_text(self, text: str) -> Predicate:
        """The same of SQL text, whose rows are asked again by who has it."""
        ...


@dataclass(frozen=True)
class _Stage:
    """A frame and the condition that made it of the one before."""

    frame: DataFrame
    condition: Any


def narrowing_frame(scan: ReplannableScan) -> DataFrame:
    """All rows of the scan; `where` and `filter` straight on the frame read only the files that may match.

    By Arrow, `select`, `selectExpr` and `count` read only the columns that they, and conditions before them, name.
    """
    files = scan.files_for(None)
    return _frame(scan, (_Stage(scan.frame_of(files), None),), Constant(True), files)


def replans_on_select(frame: DataFrame) -> bool:
    """Whether `select` on the frame lets less be read, which Spark cannot see to itself."""
    # A frame of Connect has a column of any name.
    return "select" in frame.__dict__.get("_slackwater_methods", ())


def prune_files(frame: DataFrame, condition: str) -> DataFrame:
    """The rows of `frame` for which `condition`, SQL text, is true, and maybe others: it is for who asks it again."""
    lessen = frame.__dict__.get(_LESSEN)
    return frame.where(condition) if lessen is None else lessen(condition)


def _frame(scan: ReplannableScan, stages: tuple[_Stage, ...], predicate: Predicate, files: pa.Table) -> DataFrame:
    """The frame of the last stage, whose `where` plans the scan anew for everything that was asked so far."""

    def narrow(condition: Any) -> DataFrame:
        found = scan.predicate(condition)
        both = And((predicate, found))
        fewer = scan.files_for(both) if columns_of(found) else files
        may_be_less = (scan.by_arrow or scan.finds_files_later) and columns_of(found)
        is_less = fewer.num_rows != files.num_rows or may_be_less
        renewed = _planned_anew(scan, stages, fewer, both) if is_less else stages
        stage = _Stage(plain_method(renewed[-1].frame, "filter")(condition), condition)
        return _frame(scan, (*renewed, stage), both, fewer)

    def project(*columns: Any) -> DataFrame:
        asked = list(columns[0]) if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else list(columns)
        return _selected(scan, stages, predicate, files, asked)

    def project_expressions(*texts: Any) -> DataFrame:
        asked = list(texts[0]) if len(texts) == 1 and isinstance(texts[0], list) else list(texts)
        return _selected(scan, stages, predicate, files, [F.expr(text) for text in asked])

    def count() -> int:
        return project(F.lit(1)).count()

    def lessen(condition: str) -> DataFrame:
        both = And((predicate, scan.predicate_of_text(condition)))
        fewer = scan.files_for(both)
        if fewer.num_rows == files.num_rows and not (scan.by_arrow or scan.finds_files_later):
            return found
        return _frame(scan, (_Stage(scan.frame_of(fewer, None, both), None),), both, fewer)

    methods: dict[str, Callable[..., Any]] = {"filter": narrow, "where": narrow}
    if scan.by_arrow:
        methods |= {"select": project, "selectExpr": project_expressions, "count": count}
    found = with_methods(stages[-1].frame, methods)
    if len(stages) == 1:
        found.__dict__[_LESSEN] = lessen
    return found


def _selected(
    scan: ReplannableScan, stages: tuple[_Stage, ...], predicate: Predicate, files: pa.Table, asked: Sequence[Any]
) -> DataFrame:
    """What `asked` selects of the last stage's frame, of which no more is read."""
    whole = plain_method(stages[-1].frame, "select")(*asked)
    conditions = [stage.condition for stage in stages[1:]]
    needed = _needed(whole, stages[0].frame, [*asked, *conditions])
    if needed is None or needed.issuperset(stages[0].frame.columns):
        return whole
    renewed = _planned_anew(scan, stages, files, predicate, needed)
    frame = plain_method(renewed[-1].frame, "select")(*asked)

    def method(name: str) -> Callable[..., DataFrame]:
        def call(*args: Any, **kwargs: Any) -> DataFrame:
            # These may name columns that were not selected, which Spark then looks for below.
            found = plain_method(frame, name)(*args, **kwargs)
            wanted = _needed(found, renewed[0].frame, [*args, *kwargs.values()])
            if wanted is not None and needed.issuperset(wanted):
                return found
            result: DataFrame = plain_method(same_columns(frame, whole), name)(*args, **kwargs)
            return result

        return call

    return with_methods(frame, {name: method(name) for name in _NAMES_MORE})


def _planned_anew(
    scan: ReplannableScan,
    stages: Sequence[_Stage],
    files: pa.Table,
    predicate: Predicate,
    needed: frozenset[str] | None = None,
) -> tuple[_Stage, ...]:
    renewed = [_Stage(same_columns(stages[0].frame, scan.frame_of(files, needed, predicate)), None)]
    for stage in stages[1:]:
        filtered = plain_method(renewed[-1].frame, "filter")(stage.condition)
        renewed.append(_Stage(same_plan(stage.frame, filtered), stage.condition))
    return tuple(renewed)


def _needed(frame: DataFrame, source: DataFrame, asked: Sequence[Any]) -> frozenset[str] | None:
    """The columns of `source` that `frame`, made of it by what is `asked`, needs; None where that is not clear."""
    if is_connect(source.sparkSession):
        return _named(source, asked)
    return _referenced(frame._jdf.queryExecution().analyzed(), source._jdf.queryExecution().analyzed())


def _referenced(plan: Any, source: Any) -> frozenset[str] | None:
    """The names of what the nodes of `plan` above the plan `source` refer to; None where it is not below them."""
    ids: set[str] = set()
    waiting, is_found = [plan], False
    while waiting:
        node = waiting.pop()
        if node.equals(source):
            is_found = True
            continue
        ids.update(attribute_ids(node.references()))
        children = node.children()
        waiting += [children.apply(at) for at in range(children.size())]
    if not is_found:
        return None
    # By their ids: a reference has the name that the user wrote, in whatever case.
    output = source.output()
    names = [str(output.apply(at).name()) for at in range(output.size())]
    return frozenset(name for name, number in zip(names, attribute_ids(output), strict=True) if number in ids)


def _named(frame: DataFrame, asked: Sequence[Any]) -> frozenset[str] | None:
    """The columns of `frame` that what is asked names, or may name; None where it may mean others too."""
    needed: set[str] = set()
    for each in asked:
        found = _in_text(frame.columns, each) if isinstance(each, str) else _in_column(frame, each)
        if found is None:
            return None
        needed |= found
    return frozenset(needed)


def _in_text(names: Sequence[str], text: str) -> set[str] | None:
    """Of `names` those that occur in SQL text: a name of letters and digits as a word, wherever."""
    if "*" in text or has_variables(text):
        return None
    words = set(_WORD.findall(text.lower()))
    return {name for name in names if name.lower() in words or not _WORD.fullmatch(name)}


def _in_column(frame: DataFrame, column: Any) -> set[str] | None:
    """Of the frame's columns those that a Column of Connect names, by the message that it is sent as."""
    client: Any = frame.sparkSession.client
    try:
        message = column._expr.to_plan(client)
    except AttributeError:
        # A plain value, such as `ascending`.
        return set() if isinstance(column, (bool, int, float)) else None
    needed: set[str] = set()
    for kind, value in _messages(message):
        if kind == "UnresolvedAttribute":
            parts = value.unparsed_identifier.lower().split(".")
            needed |= {n for n in frame.columns if n.lower() in parts or "`" in value.unparsed_identifier}
        elif kind == "ExpressionString":
            found = _in_text(frame.columns, value.expression)
            if found is None:
                return None
            needed |= found
        elif kind not in _PLAIN_KINDS:
            return None
    return needed


def _messages(message: Any) -> Iterator[tuple[str, Any]]:
    """The messages in an expression's message, by their kinds, but for those that name no column."""
    kind = message.DESCRIPTOR.name
    if kind in _WITHOUT_NAMES:
        return
    yield kind, message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in (value,) if hasattr(value, "DESCRIPTOR") else value:
                if hasattr(each, "DESCRIPTOR"):
                    yield from _messages(each)

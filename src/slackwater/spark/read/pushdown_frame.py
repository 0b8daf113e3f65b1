"""Frames of a table with pushdown: `where` replans the scan with fewer files.

If executors read the rows with PyArrow, Spark cannot push the required columns into the scan. Then `select` replans the
scan too. In a classic session the plan shows the required columns, in a Connect session the names in its messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.predicate.predicate import And, Constant, Predicate, columns_of
from slackwater.spark.conditions.column_trees import has_variables
from slackwater.spark.conditions.scan_conditions import ScanConditions
from slackwater.spark.read.metadata_column import HiddenMetadata, with_hidden_metadata
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import (
    attribute_ids,
    is_deterministic,
    plain_method,
    same_columns,
    same_plan,
    with_methods,
    with_source,
)

_WORD = re.compile(r"\w+")
_LESSEN, _REPLANS = "_slackwater_lessen", "_slackwater_replans"
# Methods whose arguments may name columns of the frame before a selection.
_NAMES_MORE = ("filter", "where", "orderBy", "sort", "sortWithinPartitions")
# Messages of Connect's expressions: kinds with column names only in their parts, and kinds without column names.
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
    """A scan with new plans for a subset of its rows and columns."""

    @property
    def by_arrow(self) -> bool:
        """Return whether Spark cannot push required columns and filters into the scan."""
        ...

    @property
    def finds_files_later(self) -> bool:
        """Return whether the files become known only while the frame is read, so that `files_for` cannot list them."""
        ...

    @property
    def defers_files(self) -> bool:
        """Return whether Spark chooses the files when it plans a query, so that a frame lists no files."""
        ...

    def files_for(self, predicate: Predicate | None) -> pa.Table:
        """Return the files that may hold a match for `predicate`."""
        ...

    def deferred_frame(self, predicate: Predicate) -> DataFrame:
        """Return the rows of the files that may match `predicate`. Requires `defers_files`."""
        ...

    def frame_of(
        self, files: pa.Table, needed: frozenset[str] | None = None, predicate: Predicate | None = None
    ) -> DataFrame:
        """Return the rows of `files`. Columns outside `needed` are not read, and their use is an error.

        Rows that cannot match `predicate` may be missing.
        """
        ...

    def first_rows(self, count: int) -> DataFrame | None:
        """Return `deferred_frame` of the first files with `count` rows, None if the scan cannot choose them."""
        ...

    @property
    def hidden_metadata(self) -> HiddenMetadata:
        """Return how frames of the scan hide the column METADATA."""
        ...

    def with_metadata(self) -> ReplannableScan:
        """Return the scan of the same rows with METADATA as the last column. Requires a hidden one."""
        ...

    @property
    def conditions(self) -> ScanConditions:
        """Return the conditions on the rows of the scan as predicates."""
        ...


@dataclass(frozen=True)
class _Stage:
    """A frame, and the method and arguments for its derivation from the previous frame."""

    frame: DataFrame
    method: str = ""
    asked: tuple[Any, ...] = ()

    @staticmethod
    def filtered(frame: DataFrame, condition: Any) -> _Stage:
        return _Stage(plain_method(frame, "filter")(condition), "filter", (condition,))


def narrowing_frame(scan: ReplannableScan) -> DataFrame:
    """Return all rows of the scan. `where` and `filter` directly on the frame read only files that may match.

    With PyArrow, `select`, `selectExpr` and `count` read only the columns named by them and by earlier conditions.
    """
    if scan.defers_files:
        # Filters, limits and the first rows are known before Spark plans a query.
        return _deferred(scan, (_Stage(scan.deferred_frame(Constant(True))),), Constant(True))
    files = scan.files_for(None)
    return _frame(scan, (_Stage(scan.frame_of(files)),), Constant(True), files)


def _deferred(scan: ReplannableScan, stages: tuple[_Stage, ...], predicate: Predicate) -> DataFrame:
    """Return the frame of the last stage. Its `where` narrows the files that the frame may read."""

    def narrow(condition: Any) -> DataFrame:
        found = scan.conditions.predicate_of_frame(condition)
        if columns_of(found) and _may_have_fewer_files(stages):
            both = And((predicate, found))
            renewed = _restaged(stages, scan.deferred_frame(both))
            if renewed is not None:
                return _deferred(scan, (*renewed, _Stage.filtered(renewed[-1].frame, condition)), both)
        return _deferred(scan, (*stages, _Stage.filtered(stages[-1].frame, condition)), predicate)

    def lessen(condition: str, zone: str) -> DataFrame:
        found = scan.conditions.predicate_of_text(condition, zone)
        both = And((predicate, found))
        return _deferred(scan, (_Stage(scan.deferred_frame(both)),), both)

    def limit(num: int) -> DataFrame:
        few = scan.first_rows(num) if isinstance(num, int) and num >= 0 else None
        found = stages[0].frame if few is None else same_columns(stages[0].frame, few)
        return plain_method(found, "limit")(num)

    def show(n: Any = 20, *args: Any, **kwargs: Any) -> None:
        few = scan.first_rows(n + 1) if isinstance(n, int) and not isinstance(n, bool) and n >= 0 else None
        plain_method(stages[0].frame if few is None else few, "show")(n, *args, **kwargs)

    def select(*columns: Any) -> DataFrame:
        asked = tuple(_flat(columns))
        found = plain_method(stages[-1].frame, "select")(*columns)
        if not asked or not _are_names(stages[-1].frame, asked):
            return found
        return _deferred(scan, (*stages, _Stage(found, "select", asked)), predicate)

    methods: dict[str, Callable[..., Any]] = {"filter": narrow, "where": narrow}
    if len(stages) == 1:
        methods |= {"limit": limit, "show": show}
    if is_connect(stages[-1].frame.sparkSession):
        # In a classic session, Spark tells the filters of the whole query.
        methods |= {"select": select}
    frame = with_methods(stages[-1].frame, methods)
    if any(stage.method == "select" for stage in stages):
        return frame
    if len(stages) == 1:
        frame.__dict__[_LESSEN] = lessen
    return _with_metadata(scan, frame, stages, predicate)


def _are_names(frame: DataFrame, columns: Sequence[Any]) -> bool:
    """Return whether `columns` of a frame of Connect are plain columns of `frame` under their own names."""
    # A dot and a backtick have a meaning in a name.
    plain = {name for name in frame.columns if not {".", "`"} & set(name)}
    return all((each if isinstance(each, str) else _name_of(each)) in plain for each in columns)


def _flat(columns: Sequence[Any]) -> list[Any]:
    """Return a copy of the columns for `select`, also from one list."""
    return list(columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns)


def _name_of(column: Any) -> str | None:
    """Return the name of a column of Connect without an expression."""
    expression = getattr(column, "_expr", None)
    found = getattr(expression, "_unparsed_identifier", None)
    is_hidden = getattr(expression, "_is_metadata_column", False)
    return found if isinstance(found, str) and not is_hidden else None


def replans_on_select(frame: DataFrame) -> bool:
    """Return whether `select` on the frame reduces the columns read, because Spark cannot."""
    # Read from `__dict__`, because a Connect frame returns a column for any attribute.
    return _REPLANS in frame.__dict__


def prune_files(frame: DataFrame, condition: str, zone: str) -> DataFrame:
    """Return the matching rows of `frame`, and maybe other rows. The caller must filter again.

    `condition` is SQL text in the time zone `zone`.
    """
    lessen = frame.__dict__.get(_LESSEN)
    return frame.where(condition) if lessen is None else lessen(condition, zone)


def _frame(scan: ReplannableScan, stages: tuple[_Stage, ...], predicate: Predicate, files: pa.Table) -> DataFrame:
    """Return the frame of the last stage. Its `where` replans the scan for all conditions so far."""

    def narrow(condition: Any) -> DataFrame:
        found = scan.conditions.predicate_of_frame(condition)
        if columns_of(found) and _may_have_fewer_files(stages):
            both = And((predicate, found))
            fewer = scan.files_for(both)
            is_less = fewer.num_rows != files.num_rows or scan.by_arrow or scan.finds_files_later
            renewed = _planned_anew(scan, stages, fewer, both) if is_less else None
            if renewed is not None:
                return _frame(scan, (*renewed, _Stage.filtered(renewed[-1].frame, condition)), both, fewer)
        return _frame(scan, (*stages, _Stage.filtered(stages[-1].frame, condition)), predicate, files)

    def project(*columns: Any) -> DataFrame:
        return _selected(scan, stages, predicate, files, _flat(columns))

    def project_expressions(*texts: Any) -> DataFrame:
        asked = list(texts[0]) if len(texts) == 1 and isinstance(texts[0], list) else list(texts)
        return _selected(scan, stages, predicate, files, [F.expr(text) for text in asked])

    def count() -> int:
        return project(F.lit(1)).count()

    def lessen(condition: str, zone: str) -> DataFrame:
        both = And((predicate, scan.conditions.predicate_of_text(condition, zone)))
        fewer = scan.files_for(both)
        if fewer.num_rows == files.num_rows and not (scan.by_arrow or scan.finds_files_later):
            return found
        return _frame(scan, (_Stage(scan.frame_of(fewer, None, both)),), both, fewer)

    methods: dict[str, Callable[..., Any]] = {"filter": narrow, "where": narrow}
    if scan.by_arrow:
        methods |= {"select": project, "selectExpr": project_expressions, "count": count}
    found = with_methods(stages[-1].frame, methods)
    if scan.by_arrow:
        found.__dict__[_REPLANS] = True
    if len(stages) == 1:
        found.__dict__[_LESSEN] = lessen
    found = _with_metadata(scan, found, stages, predicate)
    return found


def _with_metadata(
    scan: ReplannableScan, frame: DataFrame, stages: tuple[_Stage, ...], predicate: Predicate
) -> DataFrame:
    """Return `frame` of the last stage with the hidden column METADATA, if the scan has one of its own."""

    def reveal() -> DataFrame:
        more = scan.with_metadata()
        first = (
            more.deferred_frame(predicate)
            if more.defers_files
            else more.frame_of(more.files_for(predicate), None, predicate)
        )
        return (_restaged(stages, first) or _derived_again(stages, first))[-1].frame

    return with_hidden_metadata(frame, reveal, scan.hidden_metadata)


def _selected(
    scan: ReplannableScan, stages: tuple[_Stage, ...], predicate: Predicate, files: pa.Table, asked: Sequence[Any]
) -> DataFrame:
    """Return the selection `asked` of the last stage's frame, from a scan of only the required columns."""
    whole = plain_method(stages[-1].frame, "select")(*asked)
    conditions = [asked for stage in stages[1:] for asked in stage.asked]
    needed = _needed(whole, stages[0].frame, [*asked, *conditions])
    if needed is None or needed.issuperset(stages[0].frame.columns):
        return whole
    renewed = _planned_anew(scan, stages, files, predicate, needed)
    if renewed is None:
        return whole
    frame = plain_method(renewed[-1].frame, "select")(*asked)

    def method(name: str) -> Callable[..., DataFrame]:
        def call(*args: Any, **kwargs: Any) -> DataFrame:
            # The arguments may name columns outside the selection, which Spark resolves in the frame below.
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
) -> tuple[_Stage, ...] | None:
    return _restaged(stages, scan.frame_of(files, needed, predicate))


def _may_have_fewer_files(stages: Sequence[_Stage]) -> bool:
    """Return False for a condition with random values, because other files change its results."""
    return len(stages) == 1 or is_connect(stages[0].frame.sparkSession) or is_deterministic(stages[-1].frame)


def _restaged(stages: Sequence[_Stage], first: DataFrame) -> tuple[_Stage, ...] | None:
    """Return the stages over another frame of the table's rows, None if their plans cannot be changed."""
    if is_connect(first.sparkSession):
        # Spark reads the text of a condition when the plan is executed.
        return _derived_again(stages, first)
    renewed = [_Stage(same_columns(stages[0].frame, first))]
    for before, stage in pairwise(stages):
        derived = with_source(stage.frame, before.frame, renewed[-1].frame)
        if derived is None:
            return None
        renewed.append(replace(stage, frame=derived))
    return tuple(renewed)


def _derived_again(stages: Sequence[_Stage], first: DataFrame) -> tuple[_Stage, ...]:
    renewed = [_Stage(same_columns(stages[0].frame, first))]
    for stage in stages[1:]:
        derived = plain_method(renewed[-1].frame, stage.method)(*stage.asked)
        renewed.append(replace(stage, frame=same_plan(stage.frame, derived)))
    return tuple(renewed)


def _needed(frame: DataFrame, source: DataFrame, asked: Sequence[Any]) -> frozenset[str] | None:
    """Return the columns of `source` required by `frame`, derived from it by `asked`. None if unknown."""
    if is_connect(source.sparkSession):
        return _named(source, asked)
    return _referenced(frame._jdf.queryExecution().analyzed(), source._jdf.queryExecution().analyzed())


def _referenced(plan: Any, source: Any) -> frozenset[str] | None:
    """Return the column names referenced above the plan `source` in `plan`. None if `source` is not part of `plan`."""
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
    # Matched by id, because a reference has the user's spelling of the name.
    output = source.output()
    names = [str(output.apply(at).name()) for at in range(output.size())]
    return frozenset(name for name, number in zip(names, attribute_ids(output), strict=True) if number in ids)


def _named(frame: DataFrame, asked: Sequence[Any]) -> frozenset[str] | None:
    """Return the columns of `frame` that `asked` may name. None if it may name any column."""
    needed: set[str] = set()
    for each in asked:
        found = _in_text(frame.columns, each) if isinstance(each, str) else _in_column(frame, each)
        if found is None:
            return None
        needed |= found
    return frozenset(needed)


def _in_text(names: Sequence[str], text: str) -> set[str] | None:
    """Return the names that occur in SQL text.

    Includes all names with characters other than letters, digits and `_`.
    """
    if "*" in text or has_variables(text):
        return None
    words = set(_WORD.findall(text.lower()))
    return {name for name in names if name.lower() in words or not _WORD.fullmatch(name)}


def _in_column(frame: DataFrame, column: Any) -> set[str] | None:
    """Return the frame's columns named by a Column of Connect, according to its message.

    None if it may name any column.
    """
    client: Any = frame.sparkSession.client
    try:
        message = column._expr.to_plan(client)
    except AttributeError:
        # A plain value, such as for `ascending`.
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
    """Yield the messages in an expression's message with their kinds, except messages without column names."""
    kind = message.DESCRIPTOR.name
    if kind in _WITHOUT_NAMES:
        return
    yield kind, message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in (value,) if hasattr(value, "DESCRIPTOR") else value:
                if hasattr(each, "DESCRIPTOR"):
                    yield from _messages(each)

"""DataFrames of rows in this process.

Classic PySpark sends the rows of a list through the Python of executors. Slackwater does not need Python there if Spark
itself reads and writes the rows of tables. Arrow data and empty frames use only the JVM.

The results of calls are ordinary DataFrames. A notebook and a prompt show their rows without a request to Spark.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.html.components import card, card_or_reason, pairs, table
from slackwater.html.element import Child, Markup, element
from slackwater.html.number_format import counted, format_bytes, number, one_line, shortened, utc_text, visible
from slackwater.html.redaction import setting_without_secrets, without_secrets
from slackwater.log.table_detail import to_moment
from slackwater.spark.session.arrow_types import to_arrow_schema
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import empty_frame, plain_method, with_methods

_MOST_ROWS = 20
_LONGEST_CELL, _LONGEST_TEXT = 160, 200
_PLAIN = "DataFrame["
_SIZES = ("bytes", "size")


def local_frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: spark_types.StructType) -> DataFrame:
    """Return `rows` in a frame with `schema`. Like in `createDataFrame`, structs are tuples, and maps are dicts."""
    if not rows:
        return empty_frame(spark, schema)
    if is_connect(spark):
        return spark.createDataFrame(list(rows), schema)
    arrow = to_arrow_schema(schema)
    columns = [
        pa.array([_arrow_value(row[at], field.dataType) for row in rows], arrow.field(at).type)
        for at, field in enumerate(schema.fields)
    ]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema=schema)


def result_frame(
    spark: SparkSession,
    rows: Sequence[tuple[Any, ...]],
    schema: spark_types.StructType,
    of: str,
    shown: Sequence[str] | None = None,
) -> DataFrame:
    """Return the `local_frame` of `rows`, with an HTML representation and a repr of the result of `of`.

    Both show the columns `shown`, by default all, and come from `rows`: no job runs. If the session evaluates eagerly
    (`spark.sql.repl.eagerEval.enabled`), the frame has Spark's own representations.
    """
    frame = local_frame(spark, rows, schema)
    told = _ResultFrame(of, rows, schema, tuple(schema.names if shown is None else shown))
    return with_methods(frame, {"_repr_html_": partial(_html, frame, told), "__repr__": partial(_text, frame, told)})


def _arrow_value(value: Any, kind: spark_types.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, spark_types.StructType):
        return {f.name: _arrow_value(each, f.dataType) for f, each in zip(kind.fields, value, strict=True)}
    if isinstance(kind, spark_types.MapType) and isinstance(value, Mapping):
        return [(_arrow_value(k, kind.keyType), _arrow_value(v, kind.valueType)) for k, v in value.items()]
    if isinstance(kind, spark_types.ArrayType):
        return [_arrow_value(each, kind.elementType) for each in value]
    if isinstance(kind, spark_types.TimestampType) and isinstance(value, dt.datetime):
        # A datetime without a zone is in this machine's zone, like in PySpark.
        return value.astimezone(dt.timezone.utc)
    return value


def _html(frame: DataFrame, told: _ResultFrame) -> str:
    by_spark: str | None = plain_method(frame, "_repr_html_")()  # type: ignore[assignment]
    return card_or_reason("DataFrame", told.of, told.card) if by_spark is None else by_spark


def _text(frame: DataFrame, told: _ResultFrame) -> str:
    by_spark = str(plain_method(frame, "__repr__")())
    return told.text() if by_spark.startswith(_PLAIN) else by_spark


@dataclass(frozen=True)
class _ResultFrame:
    """The displayed result of a call."""

    of: str
    rows: Sequence[tuple[Any, ...]]
    schema: spark_types.StructType
    shown: tuple[str, ...]

    def card(self) -> Markup:
        if len(self.rows) == 1:
            return card("DataFrame", self.of, pairs(_flat(self.schema, self.rows[0], self.shown)))
        fields = {field.name: at for at, field in enumerate(self.schema.fields)}
        cells = [[_cell(name, row[fields[name]]) for name in self.shown] for row in self.rows[:_MOST_ROWS]]
        right = [name for name in self.shown if isinstance(self.schema[name].dataType, spark_types.NumericType)]
        left = len(self.rows) - len(cells)
        more = element("p", f"and {counted(left, 'row')} more", class_="sw-note") if left > 0 else None
        shown = table(self.shown, cells, right, leaves_out_empty=True) if cells else element("p", "no rows")
        return card("DataFrame", self.of, shown, more)

    def text(self) -> str:
        if not self.rows:
            return f"<DataFrame of {self.of}: no rows>"
        first = _flat(self.schema, self.rows[0], self.shown)
        values = ", ".join(f"{name} {value}" for name, value in first.items() if value is not None)
        known = "" if len(self.rows) == 1 else f"{counted(len(self.rows), 'row')}, the first: "
        return f"<DataFrame of {self.of}: {known}{shortened(visible(values), _LONGEST_TEXT)}>"


def _flat(
    schema: spark_types.StructType, row: Sequence[Any], shown: Sequence[str] | None = None, within: str = ""
) -> dict[str, Child]:
    """Return the values of a row by name. Fields of structs have dotted names."""
    found: dict[str, Child] = {}
    for field, value in zip(schema.fields, row, strict=True):
        if shown is not None and field.name not in shown:
            continue
        name = f"{within}{field.name}"
        if isinstance(field.dataType, spark_types.StructType) and value is not None:
            found |= _flat(field.dataType, value, within=f"{name}.")
        else:
            found[name] = _cell(name, value)
    return found


def _cell(name: str, value: Any) -> str | None:
    """Return a value in a short text without possible secrets, None for None."""
    words = None if value is None else _words(name, value)
    return None if words is None else shortened(without_secrets(one_line(words)), _LONGEST_CELL)


def _words(name: str, value: Any) -> str | None:
    known = name.lower()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        if known.endswith("timems"):
            moment = to_moment(value)
            return str(value) if moment is None else utc_text(moment)
        return format_bytes(value) if any(word in known for word in _SIZES) else number(value)
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, dt.datetime):
        # A datetime without a zone is in this machine's zone, like in PySpark.
        return utc_text(value.astimezone(dt.timezone.utc))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_told(str(key), each)}" for key, each in value.items()) or None
    if isinstance(value, (list, tuple)):
        return ", ".join(str(each) for each in value) or None
    return setting_without_secrets(name, str(value))


def _told(key: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({', '.join(f'{name} {_told(str(name), each)}' for name, each in value.items())})"
    return setting_without_secrets(key, str(value))

"""Tables that `df.write` alone makes: every type, as a column and as a partition value, and names that need care."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from .feature import Batch, Column, Feature, values

_ALL = (
    Column("by", "TINYINT"),
    Column("sh", "SMALLINT"),
    Column("nt", "INT"),
    Column("lo", "BIGINT"),
    Column("fl", "FLOAT"),
    Column("do", "DOUBLE"),
    Column("bo", "BOOLEAN"),
    Column("st", "STRING"),
    Column("bi", "BINARY"),
    Column("da", "DATE"),
    Column("ts", "TIMESTAMP"),
    Column("d5", "DECIMAL(5,2)"),
    Column("d38", "DECIMAL(38,18)"),
    Column("rec", "STRUCT<x: INT, y: STRUCT<z: STRING>>"),
    Column("arr", "ARRAY<INT>"),
    Column("map", "MAP<STRING, DOUBLE>"),
)
_ALL_NAMES = ", ".join(f"`{column.name}`" for column in _ALL)


def _typed(query: str, columns: tuple[Column, ...]) -> str:
    """The rows of `query` in the types of `columns`, so that a literal need not spell them."""
    cast = ", ".join(f"CAST(`{column.name}` AS {column.type}) AS `{column.name}`" for column in columns)
    return f"SELECT {cast} FROM ({query})"


def _typed_batch(columns: tuple[Column, ...], rows: dict[str, tuple[Any, ...]]) -> Batch:
    names = ", ".join(f"`{column.name}`" for column in columns)
    return Batch(_typed(values(names, *rows), columns), list(rows.values()))


_LARGE = (
    "127, 32767, 2147483647, 9223372036854775807, 3.5, double('NaN'), true, 'é😀', X'00ff', DATE'9999-12-31', "
    "TIMESTAMP'2024-02-29 23:59:59.999999Z', 999.99, 99999999999999999999.999999999999999999, "
    "named_struct('x', 1, 'y', named_struct('z', 'deep')), array(1, NULL, 3), map('k', 1.5D, 'l', NULL)"
)
_LARGE_HELD = (
    *(127, 32767, 2147483647, 9223372036854775807, 3.5, float("nan"), True, "é😀", b"\x00\xff", date(9999, 12, 31)),
    datetime(2024, 2, 29, 23, 59, 59, 999999, timezone.utc),
    *(Decimal("999.99"), Decimal("99999999999999999999.999999999999999999")),
    *({"x": 1, "y": {"z": "deep"}}, [1, None, 3], [("k", 1.5), ("l", None)]),
)
_SMALL = (
    "-128, -32768, -2147483648, -9223372036854775807 - 1, -0.0D, double('-Infinity'), false, '', X'', "
    "DATE'0001-01-01', TIMESTAMP'1969-12-31 23:59:59.000001Z', -999.99, -0.000000000000000001, "
    "named_struct('x', CAST(NULL AS INT), 'y', named_struct('z', CAST(NULL AS STRING))), "
    "array(-1), map('', 0.0D)"
)
_SMALL_HELD = (
    *(-128, -32768, -2147483648, -9223372036854775808, -0.0, float("-inf"), False, "", b"", date(1, 1, 1)),
    datetime(1969, 12, 31, 23, 59, 59, 1, timezone.utc),
    *(Decimal("-999.99"), Decimal("-0.000000000000000001")),
    *({"x": None, "y": {"z": None}}, [-1], [("", 0.0)]),
)
_NULLS = f"SELECT {', '.join(f'CAST(NULL AS {column.type}) AS `{column.name}`' for column in _ALL)}"

_PARTITIONS = (
    Column("p_byte", "TINYINT"),
    Column("p_short", "SMALLINT"),
    Column("p_int", "INT"),
    Column("p_long", "BIGINT"),
    Column("p_bool", "BOOLEAN"),
    Column("p_date", "DATE"),
    Column("p_string", "STRING"),
)
_WIDE_PARTITIONS = (
    Column("p_float", "FLOAT"),
    Column("p_double", "DOUBLE"),
    Column("p_decimal", "DECIMAL(10,3)"),
    Column("p_timestamp", "TIMESTAMP"),
)

_TWO = (Column("id", "BIGINT"), Column("name", "STRING"))

TYPE_CASES: tuple[Feature, ...] = (
    Feature(
        "plain",
        _TWO,
        (
            Batch.of("id, name", {"1L, 'a'": (1, "a"), "2L, NULL": (2, None)}),
            Batch.of("id, name", {"3L, 'é'": (3, "é")}),
            Batch.of("id, name", {"4L, ''": (4, ""), "NULL, 'd'": (None, "d")}),
        ),
    ),
    Feature(
        "partitioned",
        (*_TWO, Column("part", "INT")),
        (
            Batch.of("id, name, part", {"1L, 'a', 1": (1, "a", 1), "2L, NULL, NULL": (2, None, None)}),
            Batch.of("id, name, part", {"3L, 'é', 1": (3, "é", 1)}),
            Batch.of("id, name, part", {"4L, '', -5": (4, "", -5)}),
        ),
        partitioned_by=("part",),
    ),
    Feature(
        "all types",
        _ALL,
        (
            _typed_batch(_ALL, {_LARGE: _LARGE_HELD, _SMALL: _SMALL_HELD}),
            Batch(_NULLS, [(None,) * len(_ALL)]),
            _typed_batch(_ALL, {_SMALL: _SMALL_HELD}),
        ),
    ),
    Feature(
        "partition values",
        (Column("id", "INT"), *_PARTITIONS),
        (
            _typed_batch(
                (Column("id", "INT"), *_PARTITIONS),
                {
                    "1, -128, 1, 2147483647, -9223372036854775807, true, DATE'1969-12-31', 'a/b=c %é'": (
                        *(1, -128, 1, 2147483647, -9223372036854775807, True, date(1969, 12, 31), "a/b=c %é"),
                    ),
                    "2, NULL, NULL, NULL, NULL, NULL, NULL, NULL": (2, *(None,) * 7),
                },
            ),
            _typed_batch(
                (Column("id", "INT"), *_PARTITIONS),
                {
                    "3, 0, 0, 0, 0, false, DATE'9999-12-31', ' :?#+'": (
                        3,
                        0,
                        0,
                        0,
                        0,
                        False,
                        date(9999, 12, 31),
                        " :?#+",
                    )
                },
            ),
            _typed_batch(
                (Column("id", "INT"), *_PARTITIONS),
                {"4, 0, 0, 0, 0, false, DATE'9999-12-31', '%20'": (4, 0, 0, 0, 0, False, date(9999, 12, 31), "%20")},
            ),
        ),
        partitioned_by=tuple(column.name for column in _PARTITIONS),
    ),
    Feature(
        "wide partition values",
        (Column("id", "INT"), *_WIDE_PARTITIONS),
        (
            _typed_batch(
                (Column("id", "INT"), *_WIDE_PARTITIONS),
                {
                    "1, 0.5, -1e100D, -1.500, TIMESTAMP'2024-02-29 23:59:59.123456Z'": (
                        *(1, 0.5, -1e100, Decimal("-1.500")),
                        datetime(2024, 2, 29, 23, 59, 59, 123456, timezone.utc),
                    ),
                },
            ),
            _typed_batch(
                (Column("id", "INT"), *_WIDE_PARTITIONS),
                {
                    "2, 1.25, 0.1D, 0.001, TIMESTAMP'1969-12-31 00:00:00Z'": (
                        *(2, 1.25, 0.1, Decimal("0.001"), datetime(1969, 12, 31, tzinfo=timezone.utc)),
                    ),
                },
            ),
            Batch(
                "SELECT 3 AS id, CAST(NULL AS FLOAT) AS p_float, CAST(NULL AS DOUBLE) AS p_double, "
                "CAST(NULL AS DECIMAL(10,3)) AS p_decimal, CAST(NULL AS TIMESTAMP) AS p_timestamp",
                [(3, None, None, None, None)],
            ),
        ),
        partitioned_by=tuple(column.name for column in _WIDE_PARTITIONS),
        unreadable={"deltalake-pyarrow": "negative decimals as partition values are misread"},
    ),
    Feature(
        "timestamps without a zone",
        (Column("id", "INT"), Column("at", "TIMESTAMP_NTZ")),
        (
            Batch.of(
                "id, at",
                {"1, TIMESTAMP_NTZ'2024-02-29 23:59:59.999999'": (1, datetime(2024, 2, 29, 23, 59, 59, 999999))},
            ),
            Batch.of("id, at", {"2, TIMESTAMP_NTZ'0001-01-01 00:00:00'": (2, datetime(1, 1, 1))}),
            Batch.of("id, at", {"3, CAST(NULL AS TIMESTAMP_NTZ)": (3, None)}),
        ),
        table_features=frozenset({"timestampNtz"}),
    ),
)

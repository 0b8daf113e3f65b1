"""Calls of `spark.sql` that are more than a text: arguments by name, by position, and frames that the text names."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

Call = Callable[[SparkSession], DataFrame]


def _numbers(spark: SparkSession) -> DataFrame:
    return spark.range(4).withColumn("delta", F.concat(F.lit("d"), "id"))


CALLS: dict[str, Call] = {
    "named": lambda s: s.sql("SELECT :a + :b AS c", args={"a": 1, "b": 2}),
    "named in a filter": lambda s: s.sql("SELECT id FROM people WHERE name = :name", args={"name": "it's"}),
    "named like words of Delta": lambda s: s.sql("SELECT :version, :delta", args={"version": 3, "delta": "t@v1"}),
    "named and in a literal": lambda s: s.sql("SELECT ':a', :a, r':a' -- :a", args={"a": 1}),
    "named twice": lambda s: s.sql("SELECT :a, :a", args={"a": None}),
    "named and missing": lambda s: s.sql("SELECT :a, :b", args={"a": 1}),
    "named and too many": lambda s: s.sql("SELECT :a", args={"a": 1, "b": 2}),
    "no name given": lambda s: s.sql("SELECT :a"),
    "positions": lambda s: s.sql("SELECT ?, ?, '?'", args=[1, "b"]),
    "positions of a tuple of types": lambda s: s.sql(
        "SELECT ?, ?, ?, ?", args=[Decimal("1.50"), datetime.date(2024, 2, 29), True, 2.5]
    ),
    "too few positions": lambda s: s.sql("SELECT ?, ?", args=[1]),
    "positions in a list": lambda s: s.sql("SELECT id FROM people WHERE id IN (?, ?) ORDER BY id", args=[1, 4]),
    "a column as an argument": lambda s: s.sql("SELECT :xs[1]", args={"xs": F.array(F.lit(1), F.lit(2))}),
    "an identifier": lambda s: s.sql("SELECT count(*) FROM IDENTIFIER(:t)", args={"t": "people"}),
    "an identifier of columns": lambda s: s.sql(
        "SELECT IDENTIFIER(:c) FROM people ORDER BY 1", args={"c": "people.id"}
    ),
    "an identifier that is nowhere": lambda s: s.sql("TABLE IDENTIFIER(:t)", args={"t": "no.such.table"}),
    "a limit": lambda s: s.sql("SELECT id FROM people ORDER BY id LIMIT :n", args={"n": 2}),
    "a frame": lambda s: s.sql("SELECT * FROM {df} WHERE id > 1 ORDER BY id", df=_numbers(s)),
    "a frame named delta": lambda s: s.sql("SELECT delta FROM {delta} ORDER BY id", delta=_numbers(s)),
    "a frame twice": lambda s: s.sql("SELECT count(*) FROM {df} a JOIN {df} b USING (id)", df=_numbers(s)),
    "a frame and a name": lambda s: s.sql("SELECT * FROM {df} WHERE id = :id", args={"id": 2}, df=_numbers(s)),
    "a column of a frame": lambda s: s.sql("SELECT {col} FROM {df} ORDER BY 1", col=(df := _numbers(s)).delta, df=df),
    "formatted values": lambda s: s.sql("SELECT {n}, {s}, '{{}}'", n=3, s="it's"),
    "a value that is missing": lambda s: s.sql("SELECT {n}"),
    "braces without arguments": lambda s: s.sql("SELECT '{a}', '{', \"}\""),
    "the argument by its name": lambda s: s.sql(sqlQuery="SELECT 1 AS one"),
    "no arguments": lambda s: s.sql("SELECT 1", args=None),
    "empty arguments": lambda s: s.sql("SELECT 1", args={}),
    "empty positions": lambda s: s.sql("SELECT 1", args=[]),
    "no text": lambda s: s.sql(""),
    "only a comment": lambda s: s.sql("-- delta.`/a`"),
    "lines of Windows": lambda s: s.sql("SELECT 1,\r\n'a\r\nb'\r\n"),
    "other spaces": lambda s: s.sql("SELECT\u00a01,\u2003'\u00a0'"),
    "a byte order mark": lambda s: s.sql("\ufeffSELECT 1"),
    "a line that ends nowhere": lambda s: s.sql("SELECT 1 -- \\"),
    "a literal with blank lines": lambda s: s.sql("SELECT 'a\n\n\nb', \"\n\n\""),
    "many parentheses": lambda s: s.sql("SELECT " + "(" * 50 + "1" + ")" * 50),
    "many columns": lambda s: s.sql("SELECT " + ", ".join(f"{i} AS `delta.{i}`" for i in range(300))),
    "a long literal": lambda s: s.sql(f"SELECT length('{'delta ' * 20_000}')"),
    "many unions": lambda s: s.sql(" UNION ALL ".join(f"SELECT {i} AS i" for i in range(60)) + " ORDER BY i"),
    "an expression": lambda s: s.range(3).select(F.expr("id + 1 AS delta")),
    "a filter in text": lambda s: s.range(9).where("id BETWEEN 2 AND 4 /* VERSION AS OF */"),
    "a table by name": lambda s: s.table("people"),
    "a table that is nowhere": lambda s: s.table("no_such_table"),
    "a table with no name": lambda s: s.table(""),
}

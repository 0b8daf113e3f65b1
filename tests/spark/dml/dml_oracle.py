"""DELETE, UPDATE and MERGE in plain Python, with SQL's three-valued logic, and random operations in both forms.

Every expression is a pair: SQL text for Spark, a Python function for the oracle. Columns of the target are written
`tgt.x`, those of a MERGE's source `src.x`; NULL is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater import DeltaTable

DDL = "id LONG, k INT, v LONG, s STRING, b BOOLEAN, st STRUCT<a: INT, t: STRING>, p STRING"
"""The table's columns; `st` is a tuple here, `p` is what partitioned tables are partitioned by."""
COLUMNS = ("id", "k", "v", "s", "b", "st", "p")
_STRUCT_FIELDS = ("a", "t")

Values = Mapping[str, Any]
Scope = Mapping[str, Values]


class SeveralSourceRows(Exception):
    """Several source rows modify one target row."""


# Expressions.


@dataclass(frozen=True)
class Expr:
    """SQL text, and the value that it has where each alias stands for a row."""

    sql: str
    value: Callable[[Scope], Any]

    def text(self, unqualified: bool = False) -> str:
        """The SQL text; for a table without an alias, with plain column names."""
        return self.sql.replace("tgt.", "") if unqualified else self.sql


def column(alias: str, name: str) -> Expr:
    """A column, `st.a` for a field of the struct."""
    first, _, part = name.partition(".")

    def value(scope: Scope) -> Any:
        found = scope[alias][first]
        return found if not part or found is None else found[_STRUCT_FIELDS.index(part)]

    return Expr(f"{alias}.{name}", value)


def literal(value: Any) -> Expr:
    """A constant: None, a boolean, a number or a text without quotes."""
    plain_sql = "NULL" if value is None else str(value).lower()
    return Expr(f"'{value}'" if isinstance(value, str) else plain_sql, lambda _: value)


def strict(template: str, function: Callable[..., Any], *parts: Expr) -> Expr:
    """`function` of the parts' values, NULL where one of them is; `template` has a `{}` for each part."""

    def value(scope: Scope) -> Any:
        values = [part.value(scope) for part in parts]
        return None if None in values else function(*values)

    return Expr(template.format(*(part.sql for part in parts)), value)


def is_null(part: Expr) -> Expr:
    """`IS NULL`, which is true or false."""
    return Expr(f"{part.sql} IS NULL", lambda scope: part.value(scope) is None)


def same(left: Expr, right: Expr) -> Expr:
    """`<=>`, by which NULL equals NULL."""
    return Expr(f"{left.sql} <=> {right.sql}", lambda scope: left.value(scope) == right.value(scope))


def equal(left: Expr, right: Expr) -> Expr:
    """`=`."""
    return strict("{} = {}", lambda x, y: x == y, left, right)


def negated(part: Expr) -> Expr:
    """`NOT`."""
    return strict("NOT ({})", lambda x: not x, part)


def both(left: Expr, right: Expr) -> Expr:
    """`AND`: false where one is false, else NULL where one is NULL."""

    def value(scope: Scope) -> Any:
        values = (left.value(scope), right.value(scope))
        return False if False in values else None if None in values else True

    return Expr(f"({left.sql}) AND ({right.sql})", value)


def either(left: Expr, right: Expr) -> Expr:
    """`OR`: true where one is true, else NULL where one is NULL."""

    def value(scope: Scope) -> Any:
        values = (left.value(scope), right.value(scope))
        return True if True in values else None if None in values else False

    return Expr(f"({left.sql}) OR ({right.sql})", value)


def one_of(part: Expr, values: Sequence[int | None]) -> Expr:
    """`IN`: NULL where nothing is equal and something is NULL."""

    def value(scope: Scope) -> Any:
        found = part.value(scope)
        if found is None:
            return None
        return True if found in values else None if None in values else False

    return Expr(f"{part.sql} IN ({', '.join('NULL' if v is None else str(v) for v in values)})", value)


def coalesced(part: Expr, other: Expr) -> Expr:
    """`coalesce` of two."""

    def value(scope: Scope) -> Any:
        found = part.value(scope)
        return other.value(scope) if found is None else found

    return Expr(f"coalesce({part.sql}, {other.sql})", value)


def holds(condition: Expr | None, scope: Scope) -> bool:
    """Whether the condition is true; one that is not there is."""
    return condition is None or condition.value(scope) is True


# What operations do.


@dataclass(frozen=True)
class Row:
    """A row of the table; where row tracking is on, its id and commit version, None where this version gives them."""

    values: Values
    row_id: int | None = None
    commit_version: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The values, in the order of the columns."""
        return key_of(self.values)


@dataclass
class Outcome:
    """The table afterwards, what its change feed says (kind and row), and how many rows were changed."""

    rows: list[Row] = field(default_factory=list)
    feed: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    @property
    def affected(self) -> int:
        """All changed rows."""
        return self.updated + self.deleted + self.inserted

    def keep(self, row: Row) -> None:
        """A row stays as it is."""
        self.rows.append(row)

    def delete(self, row: Row) -> None:
        """A row goes."""
        self._tell("delete", row)
        self.deleted += 1

    def update(self, row: Row, sets: Mapping[str, Expr], scope: Scope) -> None:
        """A row gets new values, computed from those that it had."""
        new = replace(row, values=assigned(row.values, sets, scope), commit_version=None)
        self._tell("update_preimage", row)
        self._tell("update_postimage", new)
        self.updated += 1
        self.rows.append(new)

    def insert(self, values: Values) -> None:
        """A new row."""
        new = Row(values)
        self._tell("insert", new)
        self.inserted += 1
        self.rows.append(new)

    def _tell(self, kind: str, row: Row) -> None:
        change = (kind, *row.key)
        self.feed[change] += 1


@dataclass(frozen=True)
class Delete:
    """DELETE of the rows for which `condition` is true, all without one."""

    condition: Expr | None

    def expected(self, rows: Iterable[Row]) -> Outcome:
        """What it makes of the table."""
        outcome = Outcome()
        for row in rows:
            (outcome.delete if holds(self.condition, {"tgt": row.values}) else outcome.keep)(row)
        return outcome

    def run(self, spark: SparkSession, path: str, aliased: bool = True) -> None:
        """Do it; with `aliased`, on the table's alias."""
        table = DeltaTable.forPath(spark, path)
        table = table.alias("tgt") if aliased else table
        table.delete(None if self.condition is None else self.condition.text(not aliased))

    def __str__(self) -> str:
        return f"DELETE WHERE {self.condition and self.condition.sql}"


@dataclass(frozen=True)
class Update:
    """UPDATE of the rows for which `condition` is true; `sets` maps columns, or `st.a`, to values."""

    condition: Expr | None
    sets: Mapping[str, Expr]

    def expected(self, rows: Iterable[Row]) -> Outcome:
        """What it makes of the table."""
        outcome = Outcome()
        for row in rows:
            scope = {"tgt": row.values}
            if holds(self.condition, scope):
                outcome.update(row, self.sets, scope)
            else:
                outcome.keep(row)
        return outcome

    def run(self, spark: SparkSession, path: str, aliased: bool = True) -> None:
        """Do it; with `aliased`, on the table's alias."""
        table = DeltaTable.forPath(spark, path)
        table = table.alias("tgt") if aliased else table
        condition = None if self.condition is None else self.condition.text(not aliased)
        table.update(condition, {name: value.text(not aliased) for name, value in self.sets.items()})

    def __str__(self) -> str:
        return f"UPDATE SET {texts(self.sets)} WHERE {self.condition and self.condition.sql}"


MATCHED, NOT_MATCHED, BY_SOURCE = "Matched", "NotMatched", "NotMatchedBySource"


@dataclass(frozen=True)
class Clause:
    """A WHEN clause; `sets` None is a DELETE, an empty one the `*` form."""

    kind: str
    condition: Expr | None
    sets: Mapping[str, Expr] | None

    def added_to(self, builder: Any) -> Any:
        """The builder with this clause."""
        condition = None if self.condition is None else self.condition.sql
        if self.sets is None:
            return getattr(builder, f"when{self.kind}Delete")(condition)
        action = "Insert" if self.kind == NOT_MATCHED else "Update"
        if not self.sets:
            return getattr(builder, f"when{self.kind}{action}All")(condition)
        return getattr(builder, f"when{self.kind}{action}")(condition, texts(self.sets))

    def __str__(self) -> str:
        action = "DELETE" if self.sets is None else texts(self.sets) or "*"
        return f"WHEN {self.kind} AND {self.condition and self.condition.sql} THEN {action}"


@dataclass(frozen=True)
class Merge:
    """MERGE of source rows by `on`; the first clause of a kind whose condition is true decides."""

    source: Sequence[Values]
    on: Expr
    clauses: Sequence[Clause]

    def expected(self, rows: Iterable[Row]) -> Outcome:
        """What it makes of the table. Raises SeveralSourceRows."""
        outcome = Outcome()
        seen: set[int] = set()
        for row in rows:
            pairs = [n for n, source in enumerate(self.source) if holds(self.on, self._scope(row, source))]
            seen.update(pairs)
            scopes = [self._scope(row, self.source[n]) for n in pairs]
            kind = MATCHED if pairs else BY_SOURCE
            scopes = scopes or [self._scope(row, dict.fromkeys(COLUMNS))]
            taken = [(c, scope) for scope in scopes if (c := self._first(kind, scope)) is not None]
            if len(taken) > 1 and not self._is_single_delete:
                raise SeveralSourceRows
            if not taken:
                outcome.keep(row)
            elif taken[0][0].sets is None:
                outcome.delete(row)
            else:
                clause, scope = taken[0]
                outcome.update(row, clause.sets or _star(), scope)
        for number, source in enumerate(self.source):
            scope = self._scope(None, source)
            inserting = None if number in seen else self._first(NOT_MATCHED, scope)
            if inserting is not None:
                outcome.insert(assigned(dict.fromkeys(COLUMNS), inserting.sets or _star(), scope))
        return outcome

    def run(self, spark: SparkSession, path: str, aliased: bool = True) -> tuple[int, int, int, int]:
        """Do it; the counts of affected, updated, deleted and inserted rows."""
        del aliased
        source = frame(spark, self.source).alias("src")
        builder: Any = DeltaTable.forPath(spark, path).alias("tgt").merge(source, self.on.sql)
        for clause in self.clauses:
            builder = clause.added_to(builder)
        (counts,) = builder.execute().collect()
        return tuple(counts)

    @property
    def _is_single_delete(self) -> bool:
        matched = [c for c in self.clauses if c.kind == MATCHED]
        return len(matched) == 1 and matched[0].sets is None and matched[0].condition is None

    def _first(self, kind: str, scope: Scope) -> Clause | None:
        return next((c for c in self.clauses if c.kind == kind and holds(c.condition, scope)), None)

    @staticmethod
    def _scope(row: Row | None, source: Values) -> Scope:
        return {"src": source} if row is None else {"tgt": row.values, "src": source}

    def __str__(self) -> str:
        clauses = "\n    ".join(map(str, self.clauses))
        source = "\n      ".join(map(str, self.source))
        return f"MERGE ON {self.on.sql}\n    {clauses}\n    with\n      {source}"


def assigned(values: Values, sets: Mapping[str, Expr], scope: Scope) -> Values:
    """The values after `sets`; a null struct of which a field is set becomes one of nulls otherwise."""
    new = dict(values)
    for name, expression in sets.items():
        first, _, part = name.partition(".")
        found = expression.value(scope)
        if part:
            fields = list(new[first] or (None,) * len(_STRUCT_FIELDS))
            fields[_STRUCT_FIELDS.index(part)] = found
            found = tuple(fields)
        new[first] = found
    return new


def key_of(values: Values) -> tuple[Any, ...]:
    """The values, in the order of the columns."""
    return tuple(values[name] for name in COLUMNS)


def plain(row: Iterable[Any]) -> tuple[Any, ...]:
    """A row of Spark with structs as tuples."""
    return tuple(tuple(value) if isinstance(value, tuple) else value for value in row)


def frame(spark: SparkSession, rows: Iterable[Values]) -> DataFrame:
    """Rows as a DataFrame."""
    return spark.createDataFrame([key_of(row) for row in rows], DDL)


def texts(sets: Mapping[str, Expr]) -> dict[str, str]:
    """The values as SQL."""
    return {name: value.sql for name, value in sets.items()}


def _star() -> Mapping[str, Expr]:
    return {name: column("src", name) for name in COLUMNS}


# Random tables and operations.


def random_rows(random: Random, number: int, first_id: int = 0) -> list[dict[str, Any]]:
    """Rows with distinct ids, many equal values otherwise, and nulls in every other column; some occur twice."""
    rows: list[dict[str, Any]] = []
    for at in range(number):
        if rows and random.random() < 0.1:
            rows.append(dict(random.choice(rows)))
            continue
        rows.append(
            {
                "id": first_id + at,
                "k": random.choice([None, *range(8)]),
                "v": random.choice([None, *range(0, 100, 7)]),
                "s": random.choice([None, "", "a", "b", "ü"]),
                "b": random.choice([None, True, False]),
                "st": random.choice([None, (1, "x"), (2, None), (None, "y"), (None, None)]),
                "p": random.choice([None, "one", "two"]),
            }
        )
    return rows


def random_delete(random: Random) -> Delete:
    """A DELETE that mostly leaves some rows."""
    return Delete(both(random_condition(random, "tgt"), random_condition(random, "tgt")))


def random_update(random: Random) -> Update:
    """An UPDATE of one to three columns."""
    condition = None if random.random() < 0.1 else random_condition(random, "tgt")
    return Update(condition, random_sets(random, "tgt", random.randint(1, 3), nested=True))


def random_merge(random: Random, rows: Sequence[Row]) -> Merge:
    """A MERGE of a dozen source rows into `rows`; some modify rows twice."""
    source = random_rows(random, random.randint(4, 12), first_id=1000 + random.randrange(1000))
    ids = sorted({row.values["id"] for row in rows if row.values["id"] is not None})
    for row in source:
        if ids and random.random() < 0.6:
            row["id"] = ids.pop(random.randrange(len(ids)))
    pair = {name: (column("tgt", name), column("src", name)) for name in COLUMNS}
    on = random.choice(
        [
            equal(*pair["id"]),
            equal(*pair["id"]),
            both(equal(*pair["id"]), negated(is_null(pair["k"][0]))),
            both(equal(*pair["id"]), same(*pair["p"])),
            both(equal(*pair["k"]), equal(*pair["p"])),
            either(equal(*pair["id"]), both(is_null(pair["v"][0]), is_null(pair["v"][1]))),
        ]
    )
    clauses: list[Clause] = []
    for kind, most in ((MATCHED, 2), (NOT_MATCHED, 2), (BY_SOURCE, 2)):
        clauses += _random_clauses(random, kind, random.randint(0, most))
    if not clauses:
        clauses = [*_random_clauses(random, MATCHED, 1), *_random_clauses(random, NOT_MATCHED, 1)]
    return Merge(source, on, clauses)


def _random_clauses(random: Random, kind: str, number: int) -> list[Clause]:
    clauses = []
    aliases = {MATCHED: ("tgt", "src"), NOT_MATCHED: ("src",), BY_SOURCE: ("tgt",)}[kind]
    for at in range(number):
        is_last = at == number - 1
        # A clause for all that no source row matches would leave nothing to go on with.
        conditional = not is_last or kind == BY_SOURCE or random.random() < 0.4
        condition = random_condition(random, random.choice(aliases)) if conditional else None
        sets: Mapping[str, Expr] | None
        if kind == NOT_MATCHED:
            sets = {} if random.random() < 0.5 else {"id": column("src", "id"), **random_sets(random, "src", 3)}
        elif random.random() < 0.35:
            sets = None
        elif kind == MATCHED and random.random() < 0.4:
            sets = {}
        else:
            sets = random_sets(random, random.choice(aliases), random.randint(1, 3), nested=True)
        clauses.append(Clause(kind, condition, sets))
    return clauses


def random_condition(random: Random, alias: str, depth: int = 2) -> Expr:
    """A condition on the rows called `alias`."""
    if depth and random.random() < 0.35:
        parts = (random_condition(random, alias, depth - 1), random_condition(random, alias, depth - 1))
        return random.choice([both, either])(*parts) if random.random() < 0.8 else negated(parts[0])
    k, v, s, b, p = (column(alias, name) for name in ("k", "v", "s", "b", "p"))
    a, t = column(alias, "st.a"), column(alias, "st.t")
    return random.choice(
        [
            strict("{} < {}", lambda x, y: x < y, k, literal(random.randrange(8))),
            strict("{} >= {}", lambda x, y: x >= y, v, literal(random.randrange(100))),
            strict("{} + {} > {}", lambda x, y, z: x + y > z, v, k, literal(random.randrange(100))),
            strict("{} % 3 = 1", lambda x: x % 3 == 1, v),
            strict("{} BETWEEN 2 AND 5", lambda x: 2 <= x <= 5, k),
            one_of(k, random.choice([(1, 2, 3), (4, None), (0, 7)])),
            equal(s, literal(random.choice(["", "a", "ü"]))),
            strict("{} > {}", lambda x, y: x > y, s, literal("a")),
            strict("concat({}, {}) = 'ax'", lambda x, y: x + y == "ax", s, t),
            is_null(random.choice([k, v, s, b, p, a, t, column(alias, "st")])),
            b,
            negated(b),
            equal(a, literal(random.choice([1, 2]))),
            same(a, literal(None)),
            equal(p, literal(random.choice(["one", "two"]))),
            both(equal(p, literal("one")), strict("{} > 3", lambda x: x > 3, k)),
            equal(coalesced(k, literal(3)), literal(3)),
        ]
    )


def random_sets(random: Random, alias: str, number: int, nested: bool = False) -> dict[str, Expr]:
    """Values for some columns, from the rows called `alias`; with `nested`, fields of the struct too."""
    k, v, s, b, p = (column(alias, name) for name in ("k", "v", "s", "b", "p"))
    pool: dict[str, list[Expr]] = {
        "k": [literal(9), strict("{} + 1", lambda x: x + 1, k), column(alias, "st.a"), literal(None)],
        "v": [strict("{} * 2 + {}", lambda x, y: x * 2 + y, v, k), k, v, literal(-1), literal(None)],
        "s": [strict("concat({}, '!')", lambda x: x + "!", s), column(alias, "st.t"), literal("new"), s],
        "b": [negated(b), is_null(k), strict("{} > {}", lambda x, y: x > y, v, k)],
        "p": [literal("one"), literal("three"), literal(None), coalesced(p, literal("two"))],
        "st": [column(alias, "st"), literal(None)],
    }
    if nested:
        pool["st.a"] = [literal(5), k, literal(None)]
        pool["st.t"] = [s, literal("z")]
    names = random.sample(sorted(pool), number)
    if "st" in names:
        names = [name for name in names if "." not in name]
    return {name: random.choice(pool[name]) for name in names}

"""Queries made by rules, with the tables that they name: an oracle for what reads them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

# Common tables get the same names as tables, so that they hide them where they are known.
_NAMES = ("t", "u", "v", "w", "db.t", "`a b`", "delta.`/a/t`", "from_t", "`from`", "T")
_COLUMNS = (
    "a",
    "x.from",
    "b.table.join",
    "`from`",
    "'FROM n'",
    "1.",
    ".5",
    "a /* FROM n, n */",
    "b -- JOIN n\n",
    "r'\\'",
    "EXTRACT(YEAR FROM a)",
    "TRIM(BOTH 'x' FROM b)",
    "SUBSTRING(a FROM 2 FOR 3)",
    "f(a, g(b))",
    "count(*)",
    "a IS DISTINCT FROM b",
    "a IS NOT DISTINCT FROM b",
    "CASE WHEN a THEN b ELSE c END",
    "CAST(a AS INT)",
    "a[0]",
    "INTERVAL 1 DAY",
    "NOT a",
    "a BETWEEN 1 AND 2",
    "m['from']",
    "transform(a, x -> x + 1)",
    "-1",
    "a || 'b'",
    "sum(a) OVER (PARTITION BY b, c ORDER BY d)",
    "named_struct('a', 1).a",
    "date '2026-11-21'",
)
_TRAVELS = ("", " VERSION AS OF 1", " FOR TIMESTAMP AS OF now() - INTERVAL 1 DAY", " TIMESTAMP AS OF '2026-11-21'")
_SAMPLES = ("", " TABLESAMPLE (10 PERCENT)", " TABLESAMPLE (3 ROWS) REPEATABLE (1)", " WITH ('k' = 'v')")
_ALIASES = ("", " x", " AS x", " AS `x y`", " y (c, d)")
_JOINS = (" JOIN ", " LEFT JOIN ", " RIGHT OUTER JOIN ", " FULL JOIN ", " LEFT SEMI JOIN ", " LEFT ANTI JOIN ")
_UNCONDITIONED = (", ", " CROSS JOIN ", " NATURAL JOIN ")
_SETS = (" UNION ", " UNION ALL ", " EXCEPT ", " INTERSECT DISTINCT ", " MINUS ")
_PIPES = (" |> WHERE a > 1", " |> SELECT a, b AS table", " |> EXTEND a AS c", " |> LIMIT 1", " |> ORDER BY a, b")
_WITHOUT_TABLES = (
    "VALUES (1), (2) AS x (a)",
    "(VALUES (1, 'FROM n'), (2, 'b')) x",
    "range(3) r",
    "explode(array(1)) e",
)


@dataclass(frozen=True)
class Made:
    """SQL text, and the tables it names, in small letters and without quotes."""

    text: str
    tables: frozenset[str] = frozenset()

    def __add__(self, other: Made | str) -> Made:
        if isinstance(other, str):
            return Made(self.text + other, self.tables)
        return Made(self.text + other.text, self.tables | other.tables)

    def __radd__(self, other: str) -> Made:
        return Made(other + self.text, self.tables)


def queries(depth: int = 3) -> SearchStrategy[Made]:
    """A query, with queries in it that have `depth` levels at most."""
    return _query(depth, frozenset())


@st.composite
def _query(draw: DrawFn, depth: int, common: frozenset[str]) -> Made:
    if depth > 0 and draw(st.integers(0, 4)) == 0:
        return draw(_with_common_tables(depth, common))
    found = draw(_select(depth, common))
    if "|>" in found.text:
        return found
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        found = found + draw(st.sampled_from(_SETS)) + draw(_select(depth - 1, common))
    return found + draw(st.sampled_from(("", "", " ORDER BY a, b", " LIMIT 3")))


@st.composite
def _with_common_tables(draw: DrawFn, depth: int, common: frozenset[str]) -> Made:
    found = Made("WITH ")
    known = common
    names = draw(st.lists(st.sampled_from(("t", "u", "v", "w", "c")), min_size=1, max_size=2, unique=True))
    for place, name in enumerate(names):
        columns = draw(st.sampled_from(("", " (a, b)")))
        found += f"{', ' if place else ''}{name}{columns} AS (" + draw(_query(depth - 1, known)) + ")"
        known |= {name}
    return found + " " + draw(_select(depth, known))


@st.composite
def _select(draw: DrawFn, depth: int, common: frozenset[str]) -> Made:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return "TABLE " + draw(_table(common, ("",), ("",), ("",)))
    if kind == 1 and depth > 0:
        return "(" + draw(_query(depth - 1, common)) + ")"
    columns = draw(_columns(depth, common))
    relations = draw(_relations(depth, common))
    if kind == 2:
        found = "FROM " + relations
        for _ in range(draw(st.integers(0, 2))):
            found += draw(st.sampled_from(_PIPES))
        return found
    found = "FROM " + relations + " SELECT " + columns if kind == 3 else "SELECT " + columns + " FROM " + relations
    if draw(st.booleans()):
        found += " WHERE " + draw(_condition(depth, common))
    return found + (draw(st.sampled_from(("", "", " GROUP BY a, b", " GROUP BY a HAVING b"))) if kind > 3 else "")


@st.composite
def _columns(draw: DrawFn, depth: int, common: frozenset[str]) -> Made:
    found = Made(draw(st.sampled_from(("", "", "DISTINCT ", "/*+ BROADCAST(n) */ "))))
    for place in range(draw(st.integers(1, 3))):
        found += (", " if place else "") + draw(_expression(depth, common))
        found += draw(st.sampled_from(("", "", " AS c", " AS table", " `from`")))
    return found


@st.composite
def _expression(draw: DrawFn, depth: int, common: frozenset[str]) -> Made:
    if depth > 0 and draw(st.integers(0, 5)) == 0:
        wrap = draw(st.sampled_from(("({})", "f(a, ({}), b)", "EXTRACT(YEAR FROM ({}))", "((({})) + 1)")))
        before, _, behind = wrap.partition("{}")
        return before + draw(_query(depth - 1, common)) + behind
    return Made(draw(st.sampled_from(_COLUMNS)))


@st.composite
def _condition(draw: DrawFn, depth: int, common: frozenset[str]) -> Made:
    found = draw(_expression(0, common))
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        wrap = draw(st.sampled_from((" AND a IN ({})", " OR EXISTS ({})", " AND NOT (b = ({}))")))
        before, _, behind = wrap.partition("{}")
        found = found + before + draw(_query(depth - 1, common)) + behind
    return found


@st.composite
def _relations(draw: DrawFn, depth: int, common: frozenset[str], is_list: bool = True) -> Made:
    found = draw(_relation(depth, common))
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            found += draw(st.sampled_from(_UNCONDITIONED if is_list else _UNCONDITIONED[1:]))
            found += draw(_relation(depth, common))
        else:
            found += draw(st.sampled_from(_JOINS)) + draw(_relation(depth, common))
            found += " ON " + draw(_condition(depth - 1, common)) if draw(st.booleans()) else " USING (a, b)"
    return found


@st.composite
def _relation(draw: DrawFn, depth: int, common: frozenset[str]) -> Made:
    kind = draw(st.integers(0, 7))
    if depth > 0 and kind == 0:
        return "(" + draw(_query(depth - 1, common)) + ")" + draw(st.sampled_from(_ALIASES))
    if depth > 0 and kind == 1:
        return "(" + draw(_relations(depth - 1, common, is_list=False)) + ")"
    if depth > 0 and kind == 2:
        return "f(1, TABLE(" + draw(_table(common, ("",), ("",), ("",))) + "))"
    if kind == 3:
        return Made(draw(st.sampled_from(_WITHOUT_TABLES)))
    return draw(_table(common, _TRAVELS, _SAMPLES, _ALIASES))


@st.composite
def _table(
    draw: DrawFn, common: frozenset[str], travels: tuple[str, ...], samples: tuple[str, ...], aliases: tuple[str, ...]
) -> Made:
    name = draw(st.sampled_from(_NAMES))
    shown = name.replace("`", "").lower()
    if shown in common:
        return Made(name + draw(st.sampled_from(aliases)))
    text = name + draw(st.sampled_from(travels)) + draw(st.sampled_from(samples)) + draw(st.sampled_from(aliases))
    return Made(text, frozenset({shown}))

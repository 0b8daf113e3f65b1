"""ALTER TABLE taken apart; names and types stay as they were written."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.sql import alterations as parsed
from slackwater.sql.alterations import alteration_of, comment_of
from tests.sql.reading import cursor


def altered(action: str) -> parsed.Alteration:
    name, found = alteration_of(cursor(f"ALTER TABLE a.b {action}"))
    assert name.parts == ("a", "b")
    return found


def test_columns_to_add_are_definitions_with_paths() -> None:
    found = altered("ADD COLUMNS (s.x MAP<INT, DECIMAL(3, 1)> COMMENT 'c' FIRST, `a b` INT AFTER z)")
    assert isinstance(found, parsed.AddColumns)
    first, second = found.columns
    assert (first.name.parts, first.type, first.comment, first.first) == (
        ("s", "x"),
        "MAP<INT, DECIMAL(3, 1)>",
        "c",
        True,
    )
    assert (second.name.parts, second.type, second.after) == (("a b",), "INT", "z")
    assert isinstance(altered("ADD COLUMN x INT, y INT"), parsed.AddColumns)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("DROP COLUMN s.x, y", parsed.DropColumns(("`s`.`x`", "`y`"), if_exists=False)),
        ("DROP COLUMNS IF EXISTS (x)", parsed.DropColumns(("`x`",), if_exists=True)),
        ("RENAME COLUMN s.x TO `y z`", parsed.RenameColumn("`s`.`x`", "y z")),
        ("SET TBLPROPERTIES (a.b = 'c')", parsed.SetProperties({"a.b": "c"})),
        ("UNSET TBLPROPERTIES IF EXISTS ('a', b.c)", parsed.UnsetProperties(("a", "b.c"), if_exists=True)),
        ("ADD CONSTRAINT n CHECK ((x > 0) OR y)", parsed.AddConstraint("n", "(x > 0) OR y")),
        ("DROP CONSTRAINT IF EXISTS n", parsed.DropConstraint("n", if_exists=True)),
        ("CLUSTER BY (a, s.x)", parsed.ClusterBy(("`a`", "`s`.`x`"))),
        ("CLUSTER BY NONE", parsed.ClusterBy(())),
        ("DROP FEATURE f TRUNCATE HISTORY", parsed.DropFeature("f", truncates_history=True)),
        ("DROP FEATURE 'f-preview'", parsed.DropFeature("f-preview", truncates_history=False)),
        ("RENAME TO c.d", parsed.CatalogAlteration("RENAME TO", ("c", "d"))),
        ("SET LOCATION '/a'", parsed.CatalogAlteration("SET LOCATION")),
    ],
)
def test_what_each_action_says(action: str, expected: parsed.Alteration) -> None:
    assert altered(action) == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("ALTER COLUMN c TYPE MAP<INT, STRING>", parsed.ColumnClause("`c`", type="MAP<INT, STRING>")),
        ("CHANGE s.x COMMENT 'w'", parsed.ColumnClause("`s`.`x`", comment="w")),
        ("ALTER c FIRST", parsed.ColumnClause("`c`", first=True)),
        ("ALTER COLUMN c AFTER `d e`", parsed.ColumnClause("`c`", after="d e")),
        ("ALTER COLUMN c SET NOT NULL", parsed.ColumnClause("`c`", nullable=False)),
        ("ALTER COLUMN c DROP NOT NULL", parsed.ColumnClause("`c`", nullable=True)),
        ("ALTER COLUMN c SET DEFAULT f(1, 2) + 1", parsed.ColumnClause("`c`", default="f(1, 2) + 1")),
        ("ALTER COLUMN c DROP DEFAULT", parsed.ColumnClause("`c`", default="")),
        ("ALTER COLUMN c SYNC IDENTITY", parsed.ColumnClause("`c`", syncs_identity=True)),
        ("CHANGE COLUMN c C INT COMMENT 'w' AFTER d", parsed.ColumnClause("`c`", "INT", "w", after="d")),
        ("CHANGE c c INT NOT NULL FIRST", parsed.ColumnClause("`c`", "INT", nullable=False, first=True)),
    ],
)
def test_what_is_to_change_of_a_column(action: str, expected: parsed.ColumnClause) -> None:
    assert altered(action) == parsed.ChangeColumns((expected,))


def test_columns_may_change_together() -> None:
    found = altered("ALTER COLUMN a TYPE MAP<INT, INT>, b COMMENT 'x', c SET DEFAULT f(1, 2)")
    assert isinstance(found, parsed.ChangeColumns)
    assert [(clause.column, clause.type, clause.default) for clause in found.clauses] == [
        ("`a`", "MAP<INT, INT>", None),
        ("`b`", None, None),
        ("`c`", None, "f(1, 2)"),
    ]


@pytest.mark.parametrize(
    "action",
    [
        "",
        "ADD",
        "ADD COLUMN",
        "DROP x",
        "CHANGE COLUMN a b INT",
        "RENAME COLUMN a TO b.c",
        "SET DEFAULT",
        "CLUSTER BY a",
        "ALTER COLUMN a",
        "ALTER COLUMN a SET DEFAULT",
        "ADD CONSTRAINT n CHECK x",
        "SET TBLPROPERTIES ('a')",
        "DROP FEATURE",
    ],
)
def test_what_is_none_is_refused(action: str) -> None:
    with pytest.raises(InvalidArgument):
        altered(action)


def test_a_comment_is_a_text_or_null() -> None:
    assert comment_of(cursor("COMMENT ON TABLE a.b IS 'it is'"))[1] == "it is"
    assert comment_of(cursor("COMMENT ON TABLE a.b IS NULL"))[1] is None
    with pytest.raises(InvalidArgument):
        comment_of(cursor("COMMENT ON TABLE a.b IS it"))

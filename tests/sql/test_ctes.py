"""Common tables before a change of rows move into its queries."""

from __future__ import annotations

import pytest

from slackwater.errors import UnsupportedFeature
from slackwater.sql.ctes import with_tables_inside
from slackwater.sql.lexer import TokenCursor, tokens_of


def moved(text: str) -> str | None:
    return with_tables_inside(TokenCursor(text, tokens_of(text) or []))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "WITH c AS (SELECT 1 AS id) DELETE FROM t WHERE id IN (SELECT id FROM c)",
            "DELETE FROM t WHERE id IN (WITH c AS (SELECT 1 AS id) SELECT id FROM c)",
        ),
        (
            "WITH a (x) AS (VALUES (1)), b AS (FROM a) UPDATE t SET v = (SELECT max(x) FROM b), w = f(v) WHERE (v > 1)",
            "UPDATE t SET v = (WITH a (x) AS (VALUES (1)), b AS (FROM a) SELECT max(x) FROM b), w = f(v) WHERE (v > 1)",
        ),
        (
            "WITH c AS (SELECT 1 AS id) MERGE INTO t USING C ON t.id = c.id WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING (WITH c AS (SELECT 1 AS id) TABLE `C`) AS `C` ON t.id = c.id WHEN MATCHED THEN DELETE",
        ),
        (
            "WITH c AS (SELECT 1 AS id) MERGE INTO t USING c AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING (WITH c AS (SELECT 1 AS id) TABLE `c`) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        ),
        (
            "WITH c AS (SELECT 1) DELETE FROM t WHERE EXISTS (WITH d AS (FROM c) SELECT (SELECT 1) FROM d)",
            "DELETE FROM t WHERE EXISTS (WITH c AS (SELECT 1), d AS (FROM c) SELECT (SELECT 1) FROM d)",
        ),
        ("WITH c AS (SELECT 'DELETE') SELECT * FROM c", None),
        ("WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c", None),
    ],
)
def test_each_query_of_the_change_knows_the_common_tables(text: str, found: str | None) -> None:
    assert moved(text) == found


def test_recursive_ones_are_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="RECURSIVE"):
        moved("WITH RECURSIVE c AS (SELECT 1) DELETE FROM t")

"""OPTIMIZE, VACUUM, RESTORE, CONVERT, GENERATE, REORG and DESCRIBE taken apart."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.sql import maintenance as parsed
from slackwater.sql.maintenance import Target
from slackwater.sql.time_travel import SYSTEM_TIME, TIMESTAMP, VERSION, Travel
from tests.sql.reading import cursor

T = Target(("d", "t"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPTIMIZE d.t", parsed.Optimize(T, False, None, ())),
        ("OPTIMIZE '/a/b' FULL;", parsed.Optimize(Target(("delta", "/a/b")), True, None, ())),
        ("OPTIMIZE 'a'", parsed.Optimize(Target(("delta", "./a")), False, None, ())),
        (
            "OPTIMIZE d.t WHERE day = 'x' AND (b) ZORDER BY (`a b`, s.c)",
            parsed.Optimize(T, False, "day = 'x' AND (b)", ("`a b`", "`s`.`c`")),
        ),
        ("OPTIMIZE d.t ZORDER BY a, b", parsed.Optimize(T, False, None, ("`a`", "`b`"))),
    ],
)
def test_optimize(text: str, expected: parsed.Optimize) -> None:
    assert parsed.optimize_of(cursor(text)) == expected


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("", parsed.Vacuum(T, None, None, None, False)),
        ("DRY RUN RETAIN 12.5 HOURS LITE", parsed.Vacuum(T, True, None, 12.5, True)),
        ("FULL USING INVENTORY (SELECT 1) RETAIN 0 HOURS", parsed.Vacuum(T, False, "SELECT 1", 0.0, False)),
        ("USING INVENTORY a.b DRY RUN", parsed.Vacuum(T, None, "TABLE `a`.`b`", None, True)),
    ],
)
def test_clauses_of_vacuum_come_in_any_order(clauses: str, expected: parsed.Vacuum) -> None:
    assert parsed.vacuum_of(cursor(f"VACUUM d.t {clauses}")) == expected


@pytest.mark.parametrize("clauses", ["LITE FULL", "RETAIN 1", "RETAIN x HOURS", "DRY", "USING INVENTORY", "RUN"])
def test_a_vacuum_that_is_none_is_refused(clauses: str) -> None:
    with pytest.raises(InvalidArgument):
        parsed.vacuum_of(cursor(f"VACUUM d.t {clauses}"))


@pytest.mark.parametrize(
    ("text", "travel"),
    [
        ("RESTORE TABLE d.t TO VERSION AS OF 3", Travel(VERSION, ("3",))),
        ("RESTORE d.t TIMESTAMP AS OF now() - INTERVAL 1 DAY", Travel(TIMESTAMP, ("now() - INTERVAL 1 DAY",))),
        ("RESTORE d.t TO FOR SYSTEM_TIME AS OF '2026-01-01'", Travel(SYSTEM_TIME, ("'2026-01-01'",))),
    ],
)
def test_restore(text: str, travel: Travel) -> None:
    assert parsed.restore_of(cursor(text)) == parsed.Restore(T, travel)


@pytest.mark.parametrize("end", ["", "TO", "TO 3", "TO VERSION AS OF 3 AND MORE", "FOR SYSTEM_TIME FROM 1 TO 2"])
def test_a_restore_to_no_version_is_refused(end: str) -> None:
    with pytest.raises(InvalidArgument):
        parsed.restore_of(cursor(f"RESTORE TABLE d.t {end}"))


def test_convert() -> None:
    found = parsed.convert_of(cursor("CONVERT TO DELTA parquet.`/a b` NO STATISTICS PARTITIONED BY (a INT, b DATE)"))
    assert (found.source.parts, found.with_statistics, found.partitions) == (
        ("parquet", "/a b"),
        False,
        "a INT, b DATE",
    )
    plain = parsed.convert_of(cursor("CONVERT TO DELTA d.t"))
    assert (plain.with_statistics, plain.partitions) == (True, None)


def test_generate_and_reorg() -> None:
    assert parsed.generate_of(cursor("GENERATE symlink FOR TABLE d.t")) == parsed.Generate("symlink", T)
    assert parsed.reorg_of(cursor("REORG TABLE d.t WHERE a = 1 APPLY (PURGE)")) == parsed.Reorg(T, "a = 1", None)
    upgrade = "UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2)"
    assert parsed.reorg_of(cursor(f"REORG d.t APPLY ({upgrade})")) == parsed.Reorg(T, None, upgrade)
    with pytest.raises(InvalidArgument):
        parsed.reorg_of(cursor("REORG TABLE d.t"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DESCRIBE HISTORY d.t LIMIT 3", parsed.DescribeLog(True, T, 3)),
        ("DESC DETAIL '/a'", parsed.DescribeLog(False, Target(("delta", "/a")))),
        ("DESCRIBE history", None),
        ("DESCRIBE d.t", None),
        ("SHOW TABLES", None),
    ],
)
def test_history_and_detail(text: str, expected: parsed.DescribeLog | None) -> None:
    assert parsed.log_of(cursor(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DESCRIBE t", (("t",), False, None)),
        ("DESC TABLE EXTENDED d.t", (("d", "t"), True, None)),
        ("DESCRIBE FORMATTED t a.b", (("t",), True, ("a", "b"))),
        ("DESCRIBE history col", (("history",), False, ("col",))),
        ("DESCRIBE function", (("function",), False, None)),
        ("DESCRIBE table.a", (("table", "a"), False, None)),
    ],
)
def test_a_description_of_a_table(text: str, expected: tuple[object, ...]) -> None:
    found = parsed.description_of(cursor(text))
    assert found is not None
    assert (found.table.parts, found.extended, found.column) == expected


@pytest.mark.parametrize(
    "text",
    [
        "DESCRIBE FUNCTION upper",
        "DESCRIBE DATABASE EXTENDED d",
        "DESCRIBE QUERY SELECT 1",
        "DESCRIBE SELECT 1 + 1",
        "DESCRIBE",
        "DESCRIBE QUERY VALUES (1)",
    ],
)
def test_descriptions_of_other_things_are_none_of_a_table(text: str) -> None:
    assert parsed.description_of(cursor(text)) is None


def test_json_and_partitions_are_seen() -> None:
    for text in ("DESCRIBE EXTENDED t AS JSON", "DESC TABLE t AS JSON"):
        found = parsed.description_of(cursor(text))
        assert found is not None
        assert found.as_json
    found = parsed.description_of(cursor("DESCRIBE t PARTITION (a = 1)"))
    assert found is not None
    assert found.has_partition

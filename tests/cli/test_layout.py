from __future__ import annotations

from pathlib import Path

from tests.cli.commands import MAPPED, PARTITIONED, WITH_DELETED_ROWS, document, error, lines, run, usage_error


def test_people_read_it_in_a_hundred_columns() -> None:
    for table in (MAPPED, PARTITIONED, WITH_DELETED_ROWS):
        shown = lines("layout", table, columns=100)
        assert all(len(line) <= 100 for line in shown)
        assert any("OPTIMIZE would" in line for line in shown)


def test_the_depth_of_every_column_stands_in_a_row() -> None:
    shown = [line.split() for line in lines("layout", PARTITIONED)]
    assert ["number", "1.0", "1", "1.0", "of", "6"] in shown


def test_machines_get_numbers() -> None:
    found = document("layout", PARTITIONED, "--by", "number, letter")
    assert [each["column"] for each in found["columns"]] == ["number", "letter"]
    assert (found["numFiles"], found["optimize"]["filesAfter"]) == (6, 5)


def test_a_page_is_written(tmp_path: Path) -> None:
    out = tmp_path / "x.html"
    result = run("layout", WITH_DELETED_ROWS, "--out", str(out))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "rows deleted by deletion vectors" in out.read_text(encoding="utf-8")


def test_what_is_wrong_is_one_sentence() -> None:
    assert "nope" in error("layout", PARTITIONED, "--by", "nope")
    assert "end with one of .html" in usage_error("layout", PARTITIONED, "--out", "x.png")

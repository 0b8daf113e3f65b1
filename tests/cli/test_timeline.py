from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from slackwater.lake.lake import LogLake
from tests.cli.commands import STAMPED, document, error, lines, run, usage_error
from tests.transaction.tables import schema


def test_a_picture_of_a_table_is_a_file_of_the_kind_that_its_name_says(tmp_path: Path) -> None:
    for name, start in (("x.html", "<!DOCTYPE html>"), ("x.svg", "<svg ")):
        out = tmp_path / name
        result = run("timeline", STAMPED, "--out", str(out))
        assert result.exit_code == 0, result.output
        assert result.stdout == ""
        assert str(out) in result.stderr
        text = out.read_text(encoding="utf-8")
        assert text.startswith(start)
        assert all(operation in text for operation in ("UPDATE", "DELETE", "WRITE", "CREATE"))


def test_machines_get_what_the_history_has() -> None:
    found = document("timeline", STAMPED)
    history = document("history", STAMPED)
    assert [t["timestamp"] for t in found["transactions"]] == [record["timestamp"] for record in history]
    commits = [t["commits"][0] for t in found["transactions"]]
    assert [(c["version"], c["operation"]) for c in commits] == [(r["version"], r["operation"]) for r in history]
    assert commits[1]["rowsRemoved"] == 2


def test_a_period_is_from_one_moment_to_another() -> None:
    found = document("timeline", STAMPED, "--since", "2026-07-12T16:36:50Z", "--until", "2026-07-12T16:36:53Z")
    assert [t["commits"][0]["version"] for t in found["transactions"]] == [2]
    assert found["hasMore"]
    assert [t["commits"][0]["version"] for t in document("timeline", STAMPED, "--limit", "1")["transactions"]] == [3]


def test_a_lake_is_told_by_its_database(tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "lake") as lake:
        for name in ("orders", "stock"):
            lake._create_log(name, schema({"id": "long"}))
    found = json.loads("\n".join(lines("timeline", str(tmp_path / "lake"), "--json")))
    assert found["tables"] == ["orders", "stock"]
    assert found["location"] == str(tmp_path / "lake")


def test_a_timeline_is_text_where_no_file_is_named(tmp_path: Path) -> None:
    head, *rows = lines("timeline", STAMPED)
    assert head.split() == ["timestamp", "(UTC)", "table", "version", "operation", "rows", "files"]
    assert [row.split()[3:5] for row in rows] == [["3", "UPDATE"], ["2", "DELETE"], ["1", "WRITE"], ["0", "CREATE"]]
    result = run("timeline", STAMPED, "--limit", "1")
    assert result.stderr == "there are more commits: --limit, --since and --until choose them\n"
    assert len(result.stdout.splitlines()) == 2


def test_lanes_show_which_tables_changed_together(tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "lake") as lake:
        for name in ("a", "b", "c"):
            lake.create_table(name, "id BIGINT")
        with lake.transaction() as tx:
            for name in ("a", "c"):
                tx.table(name).append(pa.table({"id": [1, 2]}))
    _, *rows = lines("timeline", str(tmp_path / "lake"))
    assert [row[25:].split(maxsplit=4)[:4] for row in rows[:1]] == [["●─┼─●", "a", "1", "WRITE"]]
    assert rows[1].split()[:6] == ["│", "│", "│", "c", "1", "WRITE"]
    assert [row.split()[2:6] for row in rows[2:]] == [["│", "│", "●", "c"], ["│", "●", "│", "b"], ["●", "│", "│", "a"]]
    assert "+2" in rows[0]


def test_what_is_missing_or_wrong_is_one_sentence(tmp_path: Path) -> None:
    assert "end with one of .html, .svg, .png" in usage_error("timeline", STAMPED, "--out", "x.pdf")
    assert "--since" in usage_error("timeline", STAMPED, "--json", "--since", "noon")
    assert "is not a Delta table" in error("timeline", str(tmp_path), "--out", str(tmp_path / "x.svg"))
    assert "cannot be written" in error("timeline", STAMPED, "--out", str(tmp_path / "no" / "x.svg"))

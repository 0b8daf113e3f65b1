"""`slackwater head | count | query | diff`: rows without Spark, for people and for machines."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.cli.rows import query
from slackwater.cli.rows.cell_format import plain, records_of
from slackwater.cli.rows.column_pruning import columns_read
from slackwater.errors import PathNotAllowed
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.version_diff import difference
from tests.cli.commands import PARTITIONED, WITH_DELETED_ROWS, document, error, lines, run, usage_error

deltalake = pytest.importorskip("deltalake")


def test_head_shows_the_first_rows() -> None:
    shown = lines("head", PARTITIONED, "-n", "2")
    assert shown[0].split() == ["letter", "number", "a_float"]
    assert len(shown) == 3
    assert len(lines("head", PARTITIONED)) == 7
    assert lines("head", PARTITIONED, "-n", "0") == ["letter  number  a_float"]


def test_head_takes_columns_and_a_condition() -> None:
    asked = ("head", PARTITIONED, "--columns", "number, letter", "--where", "letter = 'a'")
    assert [line.split() for line in lines(*asked)] == [["number", "letter"], ["1", "a"], ["4", "a"]]
    assert document(*asked) == [{"number": 1, "letter": "a"}, {"number": 4, "letter": "a"}]
    assert lines(*asked, "--csv") == ["number,letter", "1,a", "4,a"]


def test_head_of_a_version() -> None:
    assert len(document("head", WITH_DELETED_ROWS, "--version", "0")) == 10
    assert [row["value"] for row in document("head", WITH_DELETED_ROWS)] == list(range(1, 9))


def test_what_head_cannot_show_is_one_line() -> None:
    assert error("head", PARTITIONED, "--columns", "x").startswith("error: no column x: the columns are ")
    assert error("head", PARTITIONED, "--where", "upper(letter) = 'A'").startswith("error: rows are not filtered by")
    assert "not both" in usage_error("head", PARTITIONED, "--json", "--csv")


def test_values_of_every_type_have_a_form_in_json() -> None:
    rows = pa.table(
        {
            "n": pa.array([1.5, float("nan")]),
            "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
            "k": pa.array([[(1, b"\xff")], []], pa.map_(pa.int64(), pa.binary())),
            "far": pa.array([253402300800000000, 0], pa.timestamp("us")),
        }
    )
    assert json.loads(json.dumps(records_of(rows))) == [
        {"n": 1.5, "m": {"a": 1}, "k": [{"key": 1, "value": "ff"}], "far": "10000-01-01 00:00:00.000000"},
        {"n": "NaN", "m": None, "k": [], "far": "1970-01-01 00:00:00.000000"},
    ]
    assert plain(float("-inf")) == "-Infinity"


def test_count_says_where_it_knows_from() -> None:
    assert lines("count", WITH_DELETED_ROWS) == ["8  (by statistics, no file was read)"]
    assert document("count", WITH_DELETED_ROWS) == {"rows": 8, "by": "statistics"}
    assert document("count", WITH_DELETED_ROWS, "--version", "0") == {"rows": 10, "by": "statistics"}
    assert lines("count", WITH_DELETED_ROWS, "--where", "value > 4") == ["4  (the files were read)"]
    assert lines("count", WITH_DELETED_ROWS, "--where", "value > 4", "--csv") == ["rows,by", "4,rows"]


def test_count_reads_files_that_have_no_statistics(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"n": [1, 2, 3]}))
    (commit,) = (tmp_path / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    commit.write_text("\n".join(map(json.dumps, actions)))
    assert document("count", str(tmp_path)) == {"rows": 3, "by": "rows"}


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_a_query_is_answered_by_what_is_installed(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(engine)
    found = importlib.util.find_spec
    monkeypatch.setattr(query, "find_spec", lambda name: found(name) if name == engine else None)
    asked = ("query", "SELECT letter, sum(number) AS s FROM t GROUP BY letter ORDER BY letter LIMIT 2", "--csv")
    result = run(*asked, "--table", f"t={PARTITIONED}")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(f"asked {query._ENGINES[engine]} ")
    assert result.stderr.endswith("; t: version 1, 2 of 3 columns\n")
    # Where NULL stands is the engine's.
    assert "a,5" in result.stdout.splitlines()


def test_a_query_without_an_engine_is_answered_by_sqlglot_over_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "find_spec", lambda name: None)
    asked = ("query", "SELECT letter, sum(number) AS s FROM t GROUP BY letter ORDER BY s LIMIT 2")
    result = run(*asked, "--table", f"t={PARTITIONED}", "--csv")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("asked sqlglot over Arrow ")
    assert result.stdout.splitlines()[0] == "letter,s"
    assert len(result.stdout.splitlines()) == 3
    refused = run("query", "SELECT median(number) FROM t", "--table", f"t={PARTITIONED}")
    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[-1] == (
        "error: without DuckDB and Polars a query cannot contain 'MEDIAN(number)' (for all of SQL, pip install duckdb)"
    )


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("SELECT count(*) FROM t", {"t": ["letter"], "u": ["value"]}),
        ("SELECT * FROM t", {"t": ["letter", "number", "a_float"], "u": ["value"]}),
        ("SELECT T.NUMBER FROM t JOIN u ON u.value = t.number", {"t": ["number"], "u": ["value"]}),
        (
            "WITH x AS (SELECT number n, letter FROM t) SELECT n FROM x WHERE letter = 'a'",
            {"t": ["letter", "number"], "u": ["value"]},
        ),
        (
            "SELECT number FROM t WHERE EXISTS (SELECT 1 FROM u WHERE value = a_float)",
            {"t": ["number", "a_float"], "u": ["value"]},
        ),
        ("no query", {"t": ["letter", "number", "a_float"], "u": ["value"]}),
    ],
)  # fmt: skip
def test_only_the_columns_that_a_query_names_are_read(sql: str, read: dict[str, list[str]]) -> None:
    schemas = {"t": Snapshot.load(PARTITIONED).schema, "u": Snapshot.load(WITH_DELETED_ROWS).schema}
    assert columns_read(sql, schemas) == read


def test_a_query_over_two_tables_and_one_that_is_wrong() -> None:
    pytest.importorskip("duckdb")
    tables = ("--table", f"t={PARTITIONED}", "--table", f"u={WITH_DELETED_ROWS}")
    assert document("query", "SELECT count(*) AS n FROM t JOIN u ON number = value", *tables)[0]["n"] > 0
    result = run("query", "SELECT nothing FROM t", *tables)
    assert result.exit_code == 1
    assert "error: DuckDB: Binder Error" in result.stderr
    assert "Traceback" not in result.output
    assert run("query", "SELECT * FROM tables", *tables).exit_code == 1
    assert document("query", "SELECT 1 AS n, 2 AS n FROM t LIMIT 1", *tables) == [{"n": 1, "n_1": 2}]


@pytest.fixture
def changed(tmp_path: Path) -> str:
    """Version 0: ids 0 to 5 in two files; 1: id 1 is gone, 4 has another text, 9 and a column are new."""
    first = pa.table({"id": [0, 1, 2], "t": ["a", None, "c"], "x": [0.5, float("nan"), 1.0]})
    second = pa.table({"id": [3, 4, 5], "t": ["d", "e", "f"], "x": [None, float("nan"), 1.0]})
    root = str(tmp_path / "t")
    deltalake.write_deltalake(root, pa.concat_tables([first, second]).cast(_typed(first)))
    after = pa.table(
        {
            "id": [0, 2, 3, 4, 5, 9],
            "t": ["a", "c", "d", "E", "f", None],
            "x": [0.5, 1.0, None, float("nan"), 1.0, 2.0],
            "new": [1, 1, 1, 1, 1, 1],
        }
    )
    deltalake.write_deltalake(root, after, mode="overwrite", schema_mode="overwrite")
    return root


def _typed(rows: pa.Table) -> pa.Schema:
    return rows.schema


def test_diff_tells_schema_files_and_rows_by_key(changed: str) -> None:
    found: Any = document("diff", changed, "0", "1", "--key", "id")
    assert found["schema"] == [{"name": "new", "before": None, "after": "long"}]
    assert (found["files"]["added"], found["files"]["removed"]) == (1, 1)
    rows = found["rows"]
    assert (rows["added"], rows["removed"], rows["changed"]) == (1, 1, 1)
    assert rows["examples"]["added"] == [{"id": 9, "t": None, "x": 2.0}]
    assert rows["examples"]["removed"] == [{"id": 1, "t": None, "x": "NaN"}]
    assert rows["examples"]["changed"] == [
        {"before": {"id": 4, "t": "e", "x": "NaN"}, "after": {"id": 4, "t": "E", "x": "NaN"}}
    ]
    backwards: Any = document("diff", changed, "1", "0", "--key", "id", "--examples", "0")
    assert (backwards["rows"]["added"], backwards["rows"]["removed"]) == (1, 1)
    assert backwards["rows"]["examples"] == {"added": [], "removed": [], "changed": []}


def test_diff_for_people_and_as_csv(changed: str) -> None:
    shown = lines("diff", changed, "0", "1", "--key", "id")
    assert shown[0] == "version 0 → 1"
    assert "rows: 1 added, 1 removed, 1 changed" in shown
    assert "rows: not compared; name their key with --key" in lines("diff", changed, "0", "1")
    table = lines("diff", changed, "0", "1", "--key", "id", "--csv")
    assert table[:2] == ["what,change,name,before,after", "schema,added,new,,long"]
    assert table[-3:] == ["row,added,,,1", "row,removed,,,1", "row,changed,,,1"]


def test_files_that_both_versions_have_are_not_read(changed: str) -> None:
    deltalake.write_deltalake(changed, pa.table({"id": [10], "t": ["z"], "x": [0.0], "new": [2]}), mode="append")
    older = set(Snapshot.load(changed, 1).files()["path"].to_pylist())
    for path in older:
        (Path(changed) / path).unlink()
    found = difference(Snapshot.load(changed, 1), Snapshot.load(changed, 2), ["id"])
    assert found.rows is not None
    assert found.rows.added["id"].to_pylist() == [10]


def test_a_vector_that_changed_is_a_row_that_is_gone() -> None:
    found: Any = document("diff", WITH_DELETED_ROWS, "0", "1", "--key", "value")
    assert [row["value"] for row in found["rows"]["examples"]["removed"]] == [0, 9]
    assert (found["rows"]["added"], found["rows"]["changed"]) == (0, 0)


def test_what_is_no_key_is_one_line(changed: str) -> None:
    assert error("diff", changed, "0", "1", "--key", "new") == (
        "error: the key new is not a column of both versions. Their common columns are id, t, x"
    )
    deltalake.write_deltalake(
        changed, pa.table({"id": [7, 7], "t": ["a", "b"], "x": [0.0, 0.0], "new": [1, 1]}), mode="append"
    )
    assert error("diff", changed, "1", "2", "--key", "id") == "error: id is not a key of version 2: 2 rows have id = 7"


def test_keys_of_several_columns_and_null_keys_match(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    rows = pa.table({"old": ["a", None, "a"], "new": [1, 1, 2], "v": [1, 2, 3]})
    deltalake.write_deltalake(root, rows)
    deltalake.write_deltalake(root, rows.set_column(2, "v", pa.array([1, 5, 3])), mode="overwrite")
    found: Any = document("diff", root, "0", "1", "--key", "old,new")
    assert (found["rows"]["added"], found["rows"]["removed"], found["rows"]["changed"]) == (0, 0, 1)
    assert found["rows"]["examples"]["changed"][0]["after"] == {"old": None, "new": 1, "v": 5}


def test_rows_of_a_clone_are_read_unless_files_outside_are_excluded(tmp_path: Path) -> None:
    clone = str(tmp_path / "clone")
    assert run("clone", PARTITIONED, clone).exit_code == 0
    assert run("diff", clone, "0", "0", "--no-paths-outside-root").exit_code == 0, "without a key no rows are read"
    for asked in (("head", clone), ("count", clone, "--where", "number > 0")):
        assert run(*asked).exit_code == 0, asked
        assert "allow_paths_outside_root=True in Python" in error(*asked, "--no-paths-outside-root")
    assert Snapshot.load(clone).to_arrow().num_rows == 6
    with pytest.raises(PathNotAllowed, match="outside the table's root"):
        Snapshot.load(clone, allow_paths_outside_root=False).to_arrow()
    pytest.importorskip("duckdb")
    told = ("query", "SELECT count(*) AS n FROM t", "--table", f"t={clone}")
    assert document(*told) == [{"n": 6}]


def test_rows_that_are_too_wide_for_a_terminal_stand_one_below_the_other(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path / "t", pa.table({f"column{at}": [at] for at in range(12)}))
    shown = _in_a_terminal(60, "head", str(tmp_path / "t"))
    assert shown[0].split() == ["row", "1", "value"]
    assert shown[12].split() == ["column11", "11"]
    assert _in_a_terminal(200, "head", str(tmp_path / "t"))[1].split() == [str(at) for at in range(12)]


def _in_a_terminal(columns: int, *arguments: str) -> list[str]:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns)}
    with subprocess.Popen([sys.executable, "-m", "slackwater", *arguments], stdout=theirs, env=environment) as process:
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):
            while part := os.read(ours, 65536):
                said += part
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()

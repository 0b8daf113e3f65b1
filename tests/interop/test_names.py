"""Names in one Hive metastore: tables that we created are found by delta-spark, and the other way round."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .delta_spark import running
from .install_delta_spark import HOW_TO_INSTALL, environment, find
from .metastore import settings

_ROOT = Path(__file__).parents[2]


def ours(folder: Path, *statements: str) -> list[list[list[str]]]:
    """What our process answers to these statements."""
    command = [sys.executable, "-m", "tests.interop.our_names", str(folder), *statements]
    known = {**environment(), "PYTHONPATH": f"{_ROOT}:{_ROOT / 'src'}"}
    done = subprocess.run(command, cwd=_ROOT, env=known, capture_output=True, text=True, check=False)
    assert done.returncode == 0, "\n".join(
        line for line in done.stderr.splitlines() if "Error" in line or "Exception" in line
    )
    answers: list[list[list[str]]] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.long
def test_names_are_found_by_both(tmp_path: Path) -> None:
    installation = find()
    if installation is None:
        pytest.skip(HOW_TO_INSTALL)
    ours(
        tmp_path,
        "CREATE TABLE of_ours (id BIGINT, s STRUCT<a: INT>) USING delta",
        "INSERT INTO of_ours VALUES (1, named_struct('a', 2))",
        f"CREATE TABLE elsewhere USING delta LOCATION '{tmp_path}/elsewhere' AS SELECT 7 AS id",
    )
    with running(installation, tmp_path, settings(str(tmp_path))) as theirs:
        assert theirs.sql("SELECT id, s.a FROM of_ours").rows.to_pylist() == [{"id": 1, "a": 2}]
        assert theirs.sql("SELECT id FROM elsewhere").rows.to_pylist() == [{"id": 7}]
        assert theirs.sql("DESCRIBE DETAIL of_ours").rows.to_pylist()[0]["format"] == "delta"
        theirs.run("INSERT INTO of_ours VALUES (3, named_struct('a', 4))")
        theirs.run("ALTER TABLE of_ours ADD COLUMNS (more STRING)")
        theirs.run("CREATE TABLE of_theirs (id INT, p INT) USING delta PARTITIONED BY (p)")
        theirs.run("INSERT INTO of_theirs VALUES (1, 1), (2, 2)")
    found = ours(
        tmp_path,
        "SELECT id, more FROM of_ours ORDER BY id",
        "DELETE FROM of_theirs WHERE p = 1",
        "SELECT * FROM of_theirs",
        "DROP TABLE elsewhere",
        "SHOW TABLES",
    )
    assert found[0] == [["1", "None"], ["3", "None"]]
    assert found[2] == [["2", "2"]]
    assert sorted(row[1] for row in found[4]) == ["of_ours", "of_theirs"]

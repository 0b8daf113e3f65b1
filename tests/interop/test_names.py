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
        "CREATE VIEW view_of_ours (number COMMENT 'id') AS SELECT id FROM of_ours WHERE s.a > 1",
        f"CREATE VIEW by_path AS SELECT id FROM delta.`{tmp_path}/elsewhere` VERSION AS OF 0",
        "ALTER VIEW by_path AS SELECT id, s.a FROM of_ours",
        f"CREATE OR REPLACE VIEW by_path AS SELECT id FROM delta.`{tmp_path}/elsewhere`",
    )
    with running(installation, tmp_path, settings(str(tmp_path))) as theirs:
        assert theirs.sql("SELECT number FROM view_of_ours").rows.to_pylist() == [{"number": 1}]
        assert theirs.sql("SELECT id FROM by_path").rows.to_pylist() == [{"id": 7}]
        assert theirs.sql("SELECT id, s.a FROM of_ours").rows.to_pylist() == [{"id": 1, "a": 2}]
        assert theirs.sql("SELECT id FROM elsewhere").rows.to_pylist() == [{"id": 7}]
        assert theirs.sql("DESCRIBE DETAIL of_ours").rows.to_pylist()[0]["format"] == "delta"
        theirs.run("INSERT INTO of_ours VALUES (3, named_struct('a', 4))")
        theirs.run("ALTER TABLE of_ours ADD COLUMNS (more STRING)")
        theirs.run("CREATE TABLE of_theirs (id INT, p INT) USING delta PARTITIONED BY (p)")
        theirs.run("INSERT INTO of_theirs VALUES (1, 1), (2, 2)")
        theirs.run("CREATE VIEW view_of_theirs AS SELECT more, s, id FROM of_ours JOIN of_theirs USING (id)")
        theirs.run("INSERT INTO of_ours VALUES (2, named_struct('a', 9), 'x')")
    found = ours(
        tmp_path,
        "SELECT id, more FROM of_ours ORDER BY id",
        "SELECT id, more, s.a FROM view_of_theirs ORDER BY id",
        "SELECT number FROM view_of_ours ORDER BY number",
        "DELETE FROM of_theirs WHERE p = 1",
        "SELECT * FROM of_theirs",
        "DROP TABLE elsewhere",
        "SHOW TABLES",
    )
    assert found[0] == [["1", "None"], ["2", "x"], ["3", "None"]]
    assert found[1] == [["1", "None", "2"], ["2", "x", "9"]]
    assert found[2] == [["1"], ["2"], ["3"]]
    assert found[4] == [["2", "2"]]
    assert sorted(row[1] for row in found[6]) == ["by_path", "of_ours", "of_theirs", "view_of_ours", "view_of_theirs"]

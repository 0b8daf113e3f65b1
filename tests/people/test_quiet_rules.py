"""A row that breaks a rule is answered by one sentence: nothing of Spark's is printed on the terminal beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.people.mistakes import require_plain
from tests.people.quiet_rules import BEGINS, ENDS

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.mark.parametrize("mode", ["classic", pytest.param("connect", marks=pytest.mark.long)])
@pytest.mark.long
def test_broken_rules_print_one_sentence_each(tmp_path: Path, mode: str) -> None:
    command = [sys.executable, "-m", "tests.people.quiet_rules", str(tmp_path / "t"), mode]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, cwd=root)
    *told, rows = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in told] == ["CHECK", "NOT NULL", "replaceWhere", "UPDATE"], done.stderr
    for line in told:
        require_plain(line)
        assert "Nothing was written" in line
    assert rows == "rows: 9"
    assert done.stderr.partition(BEGINS)[2].partition(ENDS)[0].split() == []

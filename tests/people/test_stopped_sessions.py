"""What is asked of a session that was stopped is answered by one sentence, in words of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.people.mistakes import require_plain

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.mark.parametrize("mode", ["classic", pytest.param("connect", marks=pytest.mark.long)])
@pytest.mark.long
def test_whoever_uses_a_stopped_session_is_told_so_in_one_sentence(tmp_path: Path, mode: str) -> None:
    command = [sys.executable, "-m", "tests.people.stopped_session", str(tmp_path / "t"), mode]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, cwd=root)
    *told, repaired, tables, version = done.stdout.splitlines()
    assert len(told) == 21, done.stderr
    for line in told:
        require_plain(line)
        assert "session was stopped" in line
        assert "getOrCreate()" in line
    # What needs no Spark goes on.
    assert (repaired, tables, version) == ("Lake.repair: []", "Lake.tables: ['orders']", "version: 0")

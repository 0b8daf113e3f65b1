"""`make test` and `.ci/run` run every part to its end, fail where one failed, and say how long each took."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_MAKEFILE = """
well broken third:
\t@echo $@ was here; touch $@
\t@echo '....s... [ 12%]'; echo '..F. [100%]'; echo 'FAILED test_it of $@ - too bad'
\t@test $@ != broken
waits:
\t@touch $@; read line < pipe
"""


def _started(place: Path, *words: str) -> subprocess.Popen[str]:
    (place / "Makefile").write_text(_MAKEFILE)
    # A make around this run would hand its own settings down.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.Popen(
        [sys.executable, ROOT / "tools" / "parts.py", *words],
        cwd=place, env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_part_that_fails_stops_none_beside_it_and_fails_the_whole(tmp_path: Path) -> None:
    with _started(tmp_path, "broken", "well", "third", "--", "never") as run:
        output, _ = run.communicate()
    assert run.returncode == 1
    assert all(f"==== {name}\n{name} was here\n" in output for name in ("broken", "well", "third"))
    assert "12%" not in output
    assert output.count("..F. [100%]") == 3
    failures, _, minutes = output.partition("==== broken failed\n")[2].partition("==== minutes")
    assert "FAILED test_it of broken - too bad\n" in failures
    assert "of well" not in failures
    told = re.findall(r"^ *\d+\.\d \( *\d+\.\d\)  (.*)", minutes, re.MULTILINE)
    assert sorted(told) == ["broken  FAILED (2)", "third", "well"]
    assert "never" not in output


def test_what_needs_others_to_go_well_runs_after_them(tmp_path: Path) -> None:
    with _started(tmp_path, "well", "--", "third") as run:
        output, _ = run.communicate()
    assert run.returncode == 0
    assert output.index("==== well\n") < output.index("==== third begins\n")


def test_a_run_that_is_ended_ends_its_parts_and_shows_what_they_printed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with _started(tmp_path, "waits") as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "==== waits begins\n"
        # It opens as soon as the part opens its end; and stays open, so that nothing but a signal ends the part.
        pipe = (tmp_path / "pipe").open("w")
        run.send_signal(signal.SIGTERM)
        output, _ = run.communicate()
    pipe.close()
    assert run.returncode == 1
    assert "==== waits\n" in output


def test_what_the_suite_and_ci_run_are_parts_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    told = [*makefile.splitlines(), *(ROOT / ".ci" / "run").read_text().splitlines()]
    parts = {word for line in told for word in line.partition("tools/parts.py ")[2].split()} - {"--"}
    assert {"test-kernel", "test-classic", "test-connect", "interop", "bench-smoke", "check", "demo"} <= parts
    assert parts <= set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))

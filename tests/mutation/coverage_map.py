"""Which fast tests run which lines of the package: measured once for a tree, kept, and asked for each mutant.

Also a plugin of pytest (`-p tests.mutation.coverage_map`) that gives coverage.py the name of the test that runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

FAST = ("tests/protocol", "tests/log", "tests/transaction", "tests/owner", "tests/commit", "tests/contract",
        "tests/lake", "tests/simulation", "tests/conformance")  # fmt: skip
"""The folders whose tests need neither Spark nor another engine."""

LEFT_OUT = re.compile(r"tests/owner/served/|::\w*postgres|\[(.*-)?(postgres|http|s3)(-.*)?\]$")
"""Tests with servers and processes of their own run a mutant too, but cost more than the line of code is worth."""

_AT_IMPORT = ""
"""Stands for all tests of a module: what runs when it is imported is there before the first test begins."""
_DURATIONS = "SLACKWATER_MUTATION_DURATIONS"
_DATA = "coverage.data"
_SECONDS = "durations.json"


@dataclass(frozen=True, slots=True)
class CoverageMap:
    """The tests of each line, by the module's path below `src`, and how long each of them takes."""

    tests: dict[str, dict[int, tuple[str, ...]]]
    seconds: dict[str, float]

    def tests_of(self, module: str, lines: Sequence[int], most_s: float) -> tuple[str, ...]:
        """The tests that run one of `lines`: those of the module's own test file first, then a quick one of each file.

        They take no longer than `most_s` together, the first one aside. Of a line that runs at import all tests of the
        module stand for it, and of a module without functions all tests of its package.
        """
        by_line = self.tests.get(module, {})
        found = {test for line in lines for test in by_line.get(line, ())}
        if _AT_IMPORT in found:
            found = {test for named in by_line.values() for test in named}
            if found == {_AT_IMPORT}:
                found = {test for test in self.seconds if test.startswith(f"tests/{Path(module).parts[1]}/")}
        found.discard(_AT_IMPORT)
        chosen: list[str] = []
        total_s = 0.0
        for test in self._in_turn(found, f"test_{Path(module).stem}.py"):
            if chosen and total_s + self.seconds.get(test, 0.0) > most_s:
                continue
            total_s += self.seconds.get(test, 0.0)
            chosen.append(test)
        return tuple(chosen)

    def _in_turn(self, tests: Iterable[str], own: str) -> list[str]:
        """Tests of the file `own` first, then those of each other file in turn, its quickest first."""
        by_file: Counter[str] = Counter()
        turn = {}
        for test in sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test)):
            file = test.partition("::")[0]
            by_file[file] += 1
            turn[test] = (not file.endswith(f"/{own}"), by_file[file], self.seconds.get(test, 0.0))
        return sorted(turn, key=lambda test: turn[test])


def measure(tree: Path, kept: Path, tests: Sequence[str] = FAST) -> None:
    """Run `tests` of `tree` under coverage.py; the map in `kept` is made, or learns of them."""
    kept.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(tree / "src"), os.environ.get("PYTHONPATH")))),
        "COVERAGE_FILE": str(kept / _DATA),
        _DURATIONS: str(kept / _SECONDS),
    }
    subprocess.run(
        [sys.executable, "-m", "coverage", "run", "--append", f"--source={tree / 'src'}", "-m", "pytest", "-q", "-p",
         "no:cacheprovider", "-p", "tests.mutation.coverage_map", "-m", "not spark and not interop", *tests],
        cwd=tree, env=environment, check=False,
    )  # fmt: skip


def load(kept: Path) -> CoverageMap:
    """The map that `measure` left in `kept`; tests that failed are not in it."""
    from coverage import CoverageData  # only this run needs coverage.py

    seconds = json.loads((kept / _SECONDS).read_text())
    data = CoverageData(basename=str(kept / _DATA))
    data.read()
    tests = {
        name.rpartition("/src/")[2]: {
            line: tuple(test for test in named if test in seconds or test == _AT_IMPORT)
            for line, named in data.contexts_by_lineno(name).items()
        }
        for name in data.measured_files()
    }
    return CoverageMap(tests, seconds)


_seconds: dict[str, float] = {}
_not_passed: set[str] = set()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if LEFT_OUT.search(item.nodeid)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not LEFT_OUT.search(item.nodeid)]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    from coverage import Coverage

    if (running := Coverage.current()) is not None:
        running.switch_context(item.nodeid)
    yield
    if running is not None:
        running.switch_context("")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if not report.passed:
        _not_passed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    if kept := os.environ.get(_DURATIONS):
        file = Path(kept)
        known = json.loads(file.read_text()) if file.exists() else {}
        passed = {test: taken for test, taken in _seconds.items() if test not in _not_passed}
        file.write_text(json.dumps({**known, **passed}))

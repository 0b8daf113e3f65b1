"""Unmodified test files of delta-spark's repository, run against Slackwater: all pass but for those named here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import java

_ROOT = Path(__file__).parents[2]
_FOLDER = "SLACKWATER_DELTA_PYTHON_TESTS"
_HOW_TO_RUN = f"set {_FOLDER} to the folder python/delta/tests of a checkout of delta-io/delta"
_SECONDS = 1_800

# Each with the beginning of its error, and why it is expected.
_NOT_HERE = {
    "test_dropFeatureSupport": (
        "InvalidArgument: unknown table feature 'testRemovableWriter'",
        "a feature that delta-spark has in tests only",
    ),
}
EXPECTED_FAILURES = {
    "classic": {
        **_NOT_HERE,
        "test_verify_paritionedBy_compatibility": (
            "AttributeError: ",
            "it calls a builder that is an object of the JVM",
        ),
    },
    "connect": _NOT_HERE,
}
COUNTS = {"classic": {"ok": 48, "failed": 2}, "connect": {"ok": 42, "failed": 1, "skipped": 1}}


@pytest.mark.long
@pytest.mark.parametrize("mode", COUNTS)
def test_delta_sparks_own_tests_pass_but_for_known_ones(mode: str) -> None:
    folder = os.environ.get(_FOLDER)
    if not folder:
        pytest.skip(_HOW_TO_RUN)
    found = _outcomes(folder, mode)
    failed = {name: outcome for name, outcome in found.items() if outcome not in ("ok", "skipped")}
    counts = Counter("failed" if name in failed else outcome for name, outcome in found.items())
    print(f"{mode}: {dict(counts)}")  # noqa: T201
    expected = EXPECTED_FAILURES[mode]
    assert {n: o for n, o in failed.items() if n not in expected} == {}
    assert {n for n, (error, _) in expected.items() if not failed.get(n, "").startswith(error)} == set()
    assert dict(counts) == COUNTS[mode]


def _outcomes(folder: str, mode: str) -> dict[str, str]:
    """The outcome of each test, in a process of its own: `delta` is another package there."""
    command = [sys.executable, "-m", "tests.interop.delta_python_tests", folder, mode]
    known = {**os.environ, "PYTHONPATH": f"{_ROOT}:{_ROOT / 'src'}", "JDK_JAVA_OPTIONS": java.options()}
    done = subprocess.run(command, cwd=_ROOT, env=known, capture_output=True, text=True, check=False, timeout=_SECONDS)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes: dict[str, str] = json.loads(lines[-1])
    return outcomes

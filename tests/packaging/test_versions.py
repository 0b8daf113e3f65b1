"""The table of tested versions, its record, and the classifiers of the package."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from tools import version_table, wheel_smoke
from tools.version_table import FAILED, NOT_AVAILABLE, PASSED, PYSPARKS, PYTHONS, Run

hatchling = pytest.importorskip("hatchling.metadata.core", reason="pip install --group test")

PROJECT = hatchling.load_toml(str(version_table.ROOT / "pyproject.toml"))["project"]


def test_the_page_has_the_table_of_the_record() -> None:
    page = version_table.PAGE.read_text(encoding="utf-8")
    assert version_table.page_with_table(page, version_table.recorded()) == page


def test_the_record_has_known_combinations_results_and_dates() -> None:
    runs = version_table.recorded()
    assert [run.key for run in runs] == sorted({run.key for run in runs})
    for run in runs:
        assert version_table.minor(run.python) in PYTHONS
        assert (run.mode == "plain") == (run.pyspark is None)
        assert run.pyspark is None or version_table.minor(run.pyspark) in PYSPARKS
        assert run.result in (PASSED, FAILED, NOT_AVAILABLE)
        datetime.date.fromisoformat(run.date)


def test_the_classifiers_name_the_pythons_of_the_table_from_the_required_one_on() -> None:
    lines = "\n".join(PROJECT["classifiers"])
    classified = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", lines, re.MULTILINE)
    assert classified == list(PYTHONS)
    required = SpecifierSet(PROJECT["requires-python"])
    assert PYTHONS[0] in required
    oldest = Version(PYTHONS[0])
    assert f"{oldest.major}.{oldest.minor - 1}.99" not in required


def test_each_python_of_the_classifiers_passed_in_every_mode() -> None:
    passed = {(version_table.minor(run.python), run.mode) for run in version_table.recorded() if run.result == PASSED}
    assert passed == {(python, mode) for python in PYTHONS for mode in ("classic", "connect", "plain")}


def test_no_recorded_run_failed() -> None:
    assert [run for run in version_table.recorded() if run.result == FAILED] == []


def test_the_oldest_pyspark_of_the_table_is_the_required_one() -> None:
    extras = PROJECT["optional-dependencies"]
    for extra, name in (("spark", "pyspark"), ("connect", "pyspark[connect]")):
        assert f"{name}>={PYSPARKS[0]}" in extras[extra]


def test_the_newest_run_of_a_combination_is_recorded(tmp_path: Path) -> None:
    record = tmp_path / "versions.json"
    record.write_text("[]", encoding="utf-8")
    runs = [
        Run("3.11.7", "4.0.5", "classic", "2026-01-03", PASSED),
        Run("3.10.13", "4.0.4", "classic", "2026-01-01", FAILED),
        Run("3.10.14", "4.0.5", "classic", "2026-01-02", PASSED),
        Run("3.10.13", None, "plain", "2026-01-01", PASSED),
    ]
    for run in runs:
        version_table.record_run(run, record)
    assert version_table.recorded(record) == [runs[3], runs[2], runs[0]]


@pytest.mark.parametrize(
    ("outcome", "result", "recorded"),
    [
        ((True, "ok"), PASSED, [("4.0.9", PASSED)]),
        ((False, "wrong"), FAILED, [("4.0.9", FAILED)]),
        (wheel_smoke.NoRelease(), NOT_AVAILABLE, [("4.0", NOT_AVAILABLE)]),
        (subprocess.CalledProcessError(1, "pip"), FAILED, []),
    ],
    ids=["passed", "failed", "no release", "not installed"],
)
def test_a_run_is_recorded_if_its_environment_was_made(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    outcome: tuple[bool, str] | Exception,
    result: str,
    recorded: list[tuple[str, str]],
) -> None:
    def environment(*_: object) -> str:
        if isinstance(outcome, Exception):
            raise outcome
        return sys.executable

    runs: list[Run] = []
    monkeypatch.setattr(wheel_smoke, "environment", environment)
    monkeypatch.setattr(wheel_smoke, "megabytes", lambda _: 7)
    monkeypatch.setattr(wheel_smoke, "tried", lambda *_: outcome)
    monkeypatch.setattr(wheel_smoke, "printed", lambda _, line: "4.0.9" if "pyspark" in line else "3.10.13")
    monkeypatch.setattr(version_table, "record_run", runs.append)
    monkeypatch.setattr(version_table, "write_page", lambda: None)
    found = wheel_smoke.smoke("python", tmp_path, "4.0", "classic", tmp_path, tmp_path)
    assert found[0] == result
    assert [(run.pyspark, run.result) for run in runs] == recorded
    assert all((run.python, run.mode) == ("3.10.13", "classic") for run in runs)


def test_a_cell_names_the_modes_if_their_results_differ() -> None:
    runs = [
        Run("3.10.13", "4.0.5", "classic", "2026-01-01", PASSED),
        Run("3.10.13", "4.0.5", "connect", "2026-01-01", PASSED),
        Run("3.10.13", "4.1.1", "classic", "2026-01-02", PASSED),
        Run("3.10.13", "4.2.0", "classic", "2026-01-02", PASSED),
        Run("3.10.13", "4.2.0", "connect", "2026-01-02", FAILED),
        Run("3.10.13", "4.3", "classic", "2026-01-02", NOT_AVAILABLE),
        Run("3.10.13", "4.3", "connect", "2026-01-03", NOT_AVAILABLE),
        Run("3.10.13", None, "plain", "2026-01-02", PASSED),
    ]
    row = version_table.version_table(runs).splitlines()[2]
    assert row == (
        "| 3.10 | 4.0.5, 2026-01-01 | classic: 4.1.1, 2026-01-02; Connect: not run | "
        "classic: 4.2.0, 2026-01-02; Connect: 4.2.0, failed, 2026-01-02 | not available | 2026-01-02 |"
    )


def test_a_page_without_the_table_is_an_error() -> None:
    with pytest.raises(SystemExit, match="expected one table of versions, found 0"):
        version_table.page_with_table("# Supported versions\n", [])

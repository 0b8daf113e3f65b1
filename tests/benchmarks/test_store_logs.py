"""The benchmarks of logs in a store run, and count what waits for what."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("moto")

from benchmarks.harness import SidesDisagree
from benchmarks.scales import SMALL
from benchmarks.stores import logs
from benchmarks.stores.logs import commit_slowly, in_turn, open_large

_SCALE = replace(SMALL, checkpoint_files=50, commits=1, adds_per_commit=2, log_repetitions=1)


def test_a_large_log_in_a_store_is_opened_by_both_sides(tmp_path: Path) -> None:
    before = dict(os.environ)
    seconds, memory = open_large(tmp_path, _SCALE)
    assert (seconds.case, seconds.mark, memory.unit) == ("store-open", 0.5, "MiB")
    assert seconds.answers == (51, 51)
    assert seconds.ours > 0
    assert dict(os.environ) == before


def test_a_slow_commit_is_held_against_its_round_trips(tmp_path: Path) -> None:
    (row,) = commit_slowly(tmp_path, _SCALE)
    assert (row.case, row.mark, row.answers) == ("store-commit", 1.2, ((2,), (2,)))
    assert row.ours > 5 * 0.05


def test_commits_that_are_lost_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = iter(range(100))
    monkeypatch.setattr(logs, "_add", lambda *_: next(versions))
    with pytest.raises(SidesDisagree):
        commit_slowly(tmp_path, _SCALE)


def test_requests_beside_each_other_are_one_round_trip() -> None:
    assert in_turn([], 0.05) == 0
    assert in_turn([3.0, 3.01, 3.04], 0.05) == 1
    assert in_turn([3.06, 3.0, 3.02, 3.12], 0.05) == 3

"""Whatever is in a table's files: readers answer or raise an error of ours, and come to an end in bounded memory."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import CorruptLog
from tests.fuzz.crew import examine
from tests.fuzz.mutations import mutated
from tests.fuzz.tables import bases
from tests.fuzz.worker import faults
from tests.log.tables import TableLog

_SEEDS = 100
_LONG_SEEDS = 50_000


def _told(found: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(answer) for answer in found[:20])


def test_damaged_tables_are_read_or_refused_with_an_error_of_ours(request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--seed")
    found = examine(range(_SEEDS) if seed is None else [seed], workers=1)
    assert found == [], _told(found)


@pytest.mark.long
def test_very_many_damaged_tables_are_read_or_refused_with_an_error_of_ours() -> None:
    found = examine(range(_SEEDS, _LONG_SEEDS), workers=4)
    assert found == [], _told(found)


def test_the_tables_are_sound_before_they_are_damaged(tmp_path: Path) -> None:
    for number, files in enumerate(bases()):
        root = tmp_path / str(number)
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        assert TableLog(str(root)).load().live_files().num_rows > 0


def test_a_seed_is_always_the_same_table() -> None:
    assert mutated(7) == mutated(7)
    assert len({mutated(seed)[0] for seed in range(50)}) > 25


def test_an_error_that_is_none_of_ours_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(error: Exception) -> None:
        raise error

    def broken(*_: object) -> Iterator[Any]:
        yield "ours", lambda: fail(CorruptLog("here"))
        yield "raw", lambda: fail(KeyError(-1))

    monkeypatch.setattr("tests.fuzz.worker._readers", broken)
    (found,) = faults("/nowhere", random.Random(1))  # noqa: S311  (not asked)
    assert found.startswith("raw: KeyError: -1 at ")


@pytest.mark.parametrize(
    ("command", "patience_s", "told"),
    [(("false",), 60, "it died: 1"), (("sleep", "1000"), 0.2, "it did not come to an end")],
)
def test_a_worker_that_dies_or_hangs_is_a_finding(
    command: tuple[str, ...], patience_s: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.crew._COMMAND", command)
    assert [answer["faults"] for answer in examine([1], 1, patience_s)] == [[told]]

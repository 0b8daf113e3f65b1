"""The model of timestamps keeps its order under every policy, finds planted faults, and shows what it is for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("matplotlib")

from benchmarks.scales import SMALL
from benchmarks.timestamp_curves import TABLES_OF_PAGE, timestamps
from benchmarks.timestamp_grid import HOLD, HOLD_AS_OF
from benchmarks.timestamp_history import Committed, OrderViolated, faults
from benchmarks.timestamp_locks import Locks, closes_cycle
from benchmarks.timestamp_model import run
from benchmarks.timestamp_owner import Owner
from benchmarks.timestamp_policies import EXACT, STAMPS, Control, Policy, ReadStamps
from benchmarks.timestamp_workload import Access, Granule, Workload, works

A, B = Granule(0, None), Granule(1, None)
BUSY = Workload(tables=10, zipf=0.8, early=0.5, partitions=2)

workloads = st.builds(
    Workload,
    tables=st.integers(1, 30),
    zipf=st.sampled_from((0.0, 0.8, 1.2)),
    early=st.sampled_from((0.0, 0.1, 0.5, 1.0)),
    precision_ms=st.sampled_from((1, 1000, 86_400_000)),
    partitions=st.sampled_from((1, 2, 8)),
    clients=st.integers(1, 20),
)
policies = st.builds(
    Policy,
    st.just("any"),
    slots=st.sampled_from((0, 1, 64)),
    last=st.booleans(),
    past=st.booleans(),
    ahead_ms=st.sampled_from((0.0, 10.0, 200.0)),
    ahead_quantile=st.sampled_from((None, 0.5, 0.9)),
    hold=st.sampled_from(("none", "writers", "all", "exclusive")),
    below=st.booleans(),
    declared=st.booleans(),
    reads_as_of=st.booleans(),
)
controls = st.sampled_from(("optimistic", "locking"))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(workloads, policies | st.sampled_from(STAMPS), controls, st.integers(0, 10_000))
def test_every_edge_goes_forward_whatever_the_policy(
    workload: Workload, policy: Policy, control: Control, seed: int
) -> None:
    assert run(workload, policy, control, seed, 150).commits == 150


@pytest.mark.parametrize("control", ["optimistic", "locking"])
def test_the_same_seed_is_the_same_run_and_another_seed_is_another(control: Control) -> None:
    first, again, other = (run(BUSY, EXACT, control, seed, 200) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("control", ["optimistic", "locking"])
def test_without_read_stamps_an_early_writer_slips_before_a_reader(
    monkeypatch: pytest.MonkeyPatch, control: Control
) -> None:
    monkeypatch.setattr(ReadStamps, "of_writes", lambda *_: 0)
    with pytest.raises(OrderViolated, match="rw edge"):
        run(BUSY, EXACT, control, 1, 1500)


def test_without_the_log_head_versions_do_not_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_stamps(owner: Owner, granules: Iterable[Granule]) -> int:
        return owner._stamps.of_writes(granules)

    monkeypatch.setattr(Owner, "_low_of_writes", only_stamps)
    with pytest.raises(OrderViolated, match="ww edge"):
        run(BUSY, EXACT, "optimistic", 1, 1500)


def test_without_validation_reads_are_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Owner, "_overtaken", lambda *_: float("inf"))
    with pytest.raises(OrderViolated, match="rw edge"):
        run(BUSY, EXACT, "optimistic", 1, 300)


def _one(timestamp_ms: int, reads: Iterable[tuple[Granule, int]], writes: Iterable[tuple[Granule, int]]) -> Committed:
    return Committed(timestamp_ms, 0, 0.0, 1.0, tuple(reads), tuple(writes))


def test_the_check_finds_the_papers_figure_1() -> None:
    early, late = _one(1, [(B, 1)], [(A, 1)]), _one(3, [], [(B, 1)])
    assert list(faults([late, early])) == ["wr edge of table 1 goes from 3 to 1 ms"]
    assert not list(faults([late, replace(early, timestamp_ms=4)]))


def test_the_check_finds_write_skew_and_lost_updates() -> None:
    skew = [_one(1, [(A, 0), (B, 0)], [(A, 1)]), _one(2, [(A, 0), (B, 0)], [(B, 1)])]
    lost = [_one(1, [(A, 0)], [(A, 1)]), _one(2, [(A, 0)], [(A, 2)])]
    assert list(faults(skew)) == ["rw edge of table 0 goes from 2 to 1 ms"]
    assert list(faults(lost)) == ["rw edge of table 0 goes from 2 to 1 ms"]


def test_the_check_finds_a_time_before_one_that_was_acknowledged() -> None:
    first = Committed(5, 0, 0.0, 1.0, (), ((A, 1),))
    second = Committed(4, 0, 2.0, 3.0, (), ((B, 1),))
    assert len(list(faults([first, second]))) == 1


def test_stamps_of_whole_tables_and_of_partitions_bind_the_writers_of_both() -> None:
    stamps = ReadStamps(0)
    stamps.stamp([Granule(0, 1)], 5)
    assert [stamps.of_writes([Granule(0, partition)]) for partition in (1, 2)] == [5, 0]
    stamps.stamp([A], 7)
    assert [stamps.of_writes([Granule(0, partition)]) for partition in (1, 2)] == [7, 7]
    assert stamps.of_writes([B]) == 0


def test_one_slot_is_shared_by_all_items() -> None:
    stamps = ReadStamps(1)
    stamps.stamp([A], 7)
    assert stamps.of_writes([B]) == 7


def test_locks_are_shared_by_readers_and_kept_from_those_who_came_later() -> None:
    locks: Locks[str] = Locks(2)
    read, write = Access(0, Granule(0, 1), True, False), Access(0, A, False, True)
    assert not locks.blockers("reader", [read])
    locks.grant("reader", [read])
    assert locks.blockers("writer", [write]) == {"reader"}
    assert locks.blockers("late reader", [read]) == {"writer"}
    locks.release("reader")
    assert not locks.blockers("writer", [write])


def test_a_circle_of_waits_is_found_from_any_of_its_members() -> None:
    waits = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert [closes_cycle(who, lambda of: waits.get(of, set())) for who in "abcd"] == [True, True, True, False]


def test_late_choosers_never_lack_a_stamp() -> None:
    for policy in STAMPS[:-1]:
        assert run(replace(BUSY, early=0.0), policy, commits=300).stamp_aborts == 0


def test_a_day_is_never_too_narrow_and_a_ms_often_is() -> None:
    assert run(BUSY, commits=500).stamp_share > 0.05
    assert run(replace(BUSY, precision_ms=86_400_000), commits=500).stamp_aborts == 0


def test_the_work_of_a_client_is_the_same_for_every_share_of_askers() -> None:
    early, late = works(replace(BUSY, early=1.0), 3), works(replace(BUSY, early=0.0), 3)
    for _ in range(50):
        asked, unasked = next(early), next(late)
        assert asked.asks_at is not None
        assert replace(asked, asks_at=None) == unasked


def test_what_is_held_is_not_lacked() -> None:
    assert run(BUSY, HOLD, commits=500).stamp_aborts == 0
    assert run(BUSY, HOLD_AS_OF, "locking", commits=500).stamp_aborts == 0


def test_ahead_waits_for_the_clock_and_lacks_fewer_stamps() -> None:
    now, ahead = run(BUSY, commits=500), run(BUSY, Policy("ahead", ahead_ms=200), commits=500)
    assert now.ahead_ms == 0 < ahead.ahead_ms
    assert ahead.stamp_share < now.stamp_share / 2


def test_the_case_draws_its_curves_and_keeps_the_words_of_its_page(tmp_path: Path) -> None:
    page = tmp_path / "timestamps" / "timestamp-curves.md"
    page.parent.mkdir()
    marks = "".join(f"<!-- {name} -->\nold figures\n<!-- end -->\nwords of {name}\n" for name in TABLES_OF_PAGE)
    page.write_text(marks, encoding="utf-8")
    rows = timestamps(tmp_path, SMALL)
    text = page.read_text(encoding="utf-8")
    assert [row.mark for row in rows] == [1.0, 1.25]
    assert "old figures" not in text
    assert all(f"words of {name}\n" in text for name in TABLES_OF_PAGE)
    images = sorted(file.name for file in (page.parent / "images").iterdir())
    assert images == ["timestamp-share.png", "timestamp-trade.png", "timestamp-zipf.png"]


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "timestamps" / "timestamp-curves.md"
    page.parent.mkdir()
    page.write_text("words", encoding="utf-8")
    with pytest.raises(ValueError, match="expected one line"):
        timestamps(tmp_path, SMALL)
    assert page.read_text(encoding="utf-8") == "words"
    assert not (page.parent / "images").exists()

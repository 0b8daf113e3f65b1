"""`python -m benchmarks.timestamp_curves`: run the grid of the model, draw the curves, write the tables.

The figures stand in docs/timestamp-curves.md; its tables are replaced, its words are left.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness import ROOT, Row, timed
from benchmarks.scales import FULL, Scale
from benchmarks.timestamp_grid import (
    AHEAD,
    AS_OF,
    BASE,
    HOLD,
    HOLD_AS_OF,
    HOLDS,
    LEAST_THROUGHPUT,
    MOST_STAMP_ABORTS,
    SHARES,
    TABLES,
    UNDECLARED,
    ZIPFS,
    Runs,
)
from benchmarks.timestamp_policies import EXACT, STAMPS, Control, Policy
from benchmarks.timestamp_workload import PRECISIONS, Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOCS = ROOT / "docs"
_PAGE = "timestamp-curves.md"
_COMMITS, _QUICK_COMMITS = 1200, 40
# Throughput is what long transactions leave of it: it needs longer runs than shares of aborts.
_LONGER = 4
_CONTROLS: tuple[Control, ...] = ("optimistic", "locking")
_LINES = ("-o", "-s", "-^", "-v", "-D", "--x", "--+", "-.*")


def timestamps(data: Path, scale: Scale) -> list[Row]:
    """The model's grid: at full scale the page of docs is made anew, else a short one below `data`."""
    is_full = scale is FULL
    runs = write_page(DOCS if is_full else data / "timestamps", _COMMITS if is_full else _QUICK_COMMITS)
    late, held = runs.of(replace(BASE, early=0.0)), runs.of(BASE, HOLD)
    work = f"{BASE.tables} tables, {BASE.early:.0%} ask early at ms, model"
    return [
        Row("timestamps", f"{work}: aborts for want of a stamp, {HOLD.name}", "",
            100 * held.stamp_share, None, 100 * MOST_STAMP_ABORTS, unit="%",
            note=f"without hold {runs.of(BASE).stamp_share:.1%}, with it {held.stamp_share:.1%}"),
        Row("timestamps", f"{work}: virtual time of a commit, {HOLD.name}", "late choosers",
            1 / held.throughput, 1 / late.throughput, 1 / LEAST_THROUGHPUT),
    ]  # fmt: skip


TIMESTAMP_CASES = {"timestamps": timestamps}
"""The cases of the model, by name."""


def write_page(folder: Path, commits: int) -> Runs:
    """Draw the curves into `folder`/images and put the tables into its page; the runs that decide, which come back.

    These have four times `commits`, the others `commits` each.

    Raises ValueError, before anything is run, where the page has no place for a table.
    """
    runs, deciding = Runs(commits), Runs(_LONGER * commits)
    page, images = folder / _PAGE, folder / "images"
    for name in TABLES_OF_PAGE:
        with_table(_text(page), name, "")
    images.mkdir(parents=True, exist_ok=True)
    _draw_stamps(runs, images / "timestamp-zipf.png", "Zipf exponent", ZIPFS, lambda zipf: replace(BASE, zipf=zipf))
    _draw_stamps(
        runs, images / "timestamp-share.png", "share that asks early",
        SHARES, lambda early: replace(BASE, early=early),
    )  # fmt: skip
    _draw_trade(deciding, images / "timestamp-trade.png")
    tables = {name: table(deciding if name in _DECIDING else runs) for name, table in TABLES_OF_PAGE.items()}
    # Its words may have been changed meanwhile.
    text = _text(page)
    for name, table in tables.items():
        text = with_table(text, name, table)
    page.write_text(text, encoding="utf-8")
    return deciding


def _stamps(runs: Runs) -> str:
    """Aborts for want of a stamp by what is remembered of readers."""
    rows = []
    for control in _CONTROLS:
        for tables in TABLES:
            for early in SHARES[1:]:
                workload = replace(BASE, tables=tables, early=early)
                shares = [percent(runs.of(workload, policy, control).stamp_share) for policy in STAMPS]
                at_s = percent(runs.of(replace(workload, precision_ms=1000), EXACT, control).stamp_share)
                rows.append([control, str(tables), f"{early:.0%}", *shares, at_s])
    heads = ["control", "tables", "ask early", *(policy.name for policy in STAMPS), "exact, asked at s"]
    return markdown_table(heads, rows)


def _precision(runs: Runs) -> str:
    rows = []
    for control in _CONTROLS:
        for zipf in ZIPFS:
            cells = []
            for precision in PRECISIONS.values():
                workload = replace(BASE, zipf=zipf, precision_ms=precision)
                found = runs.of(workload, EXACT, control)
                cells += [percent(found.stamp_share), f"{runs.relative(workload, EXACT, control):.2f}"]
            rows.append([control, f"{zipf:g}", *cells])
    heads = [f"{name}: {what}" for name in PRECISIONS for what in ("stamp aborts", "throughput")]
    return markdown_table(["control", "Zipf", *heads], rows)


def _past(runs: Runs) -> str:
    """What it buys that a transaction whose read was overtaken may choose a time before that."""
    rows = []
    for early, policy in ((0.0, EXACT), (0.5, EXACT), (0.5, HOLD)):
        for partitions in (8, 1):
            for zipf in (0.0, 0.8):
                workload = replace(BASE, zipf=zipf, partitions=partitions, early=early)
                with_past, without = (runs.of(workload, replace(policy, past=past)) for past in (True, False))
                rows.append([
                    f"{early:.0%}", policy.name, str(partitions), f"{zipf:g}",
                    percent(without.conflict_share), percent(with_past.conflict_share),
                    percent(without.stamp_share), percent(with_past.stamp_share),
                    f"{with_past.throughput / without.throughput:.2f}",
                ])  # fmt: skip
    heads = ["ask early", "policy", "partitions", "Zipf", "conflicts without", "with", "stamp aborts without", "with",
             "throughput with ÷ without"]  # fmt: skip
    return markdown_table(heads, rows)


def _trade(runs: Runs) -> str:
    rows = []
    for control in _CONTROLS:
        late = runs.of(replace(BASE, early=0.0), EXACT, control)
        rows.append([control, "late choosers", "0", percent(late.conflict_share), f"{late.wait_ms:.0f}", "0",
                     f"{late.latency_ms:.0f}", "1.00", ""])  # fmt: skip
        as_of = (AS_OF, HOLD_AS_OF) if control == "locking" else ()
        policies = (EXACT, *AHEAD, *HOLDS, *UNDECLARED, *as_of)
        rows.extend([control, *_measured(runs, BASE, policy, control)] for policy in policies)
    heads = ["control", "policy", "stamp aborts", "conflicts", "wait ms", "ahead ms", "latency ms", "throughput",
             "goal"]  # fmt: skip
    return markdown_table(heads, rows)


def _measured(runs: Runs, workload: Workload, policy: Policy, control: Control) -> list[str]:
    found = runs.of(workload, policy, control)
    return [
        policy.name, percent(found.stamp_share), percent(found.conflict_share), f"{found.wait_ms:.0f}",
        f"{found.ahead_ms:.0f}", f"{found.latency_ms:.0f}", f"{runs.relative(workload, policy, control):.2f}",
        "met" if runs.meets_goal(workload, policy, control) else "",
    ]  # fmt: skip


def _goal(runs: Runs) -> str:
    """The finalists wherever the goal is asked for: 50 tables, half of them early, ms."""
    finalists: dict[Control, tuple[Policy, ...]] = {
        "optimistic": (EXACT, AHEAD[7], HOLDS[0], HOLD, HOLDS[4]),
        "locking": (EXACT, AS_OF, HOLD, HOLD_AS_OF),
    }
    rows = []
    for control, policies in finalists.items():
        for policy in policies:
            for partitions in (8, 1):
                cells = []
                for zipf in ZIPFS:
                    workload = replace(BASE, zipf=zipf, partitions=partitions)
                    share = percent(runs.of(workload, policy, control).stamp_share)
                    cell = f"{share} / {runs.relative(workload, policy, control):.2f}"
                    cells.append(f"**{cell}**" if runs.meets_goal(workload, policy, control) else cell)
                rows.append([control, policy.name, str(partitions), *cells])
    return markdown_table(["control", "policy", "partitions", *(f"Zipf {zipf:g}" for zipf in ZIPFS)], rows)


TABLES_OF_PAGE: dict[str, Callable[[Runs], str]] = {
    "stamps": _stamps,
    "precision": _precision,
    "past": _past,
    "trade": _trade,
    "goal": _goal,
}
"""The page's tables, by the name in its marks."""
_DECIDING = ("trade", "goal")


def _draw_stamps(
    runs: Runs, file: Path, label: str, values: Sequence[float], workload_of: Callable[[float], Workload]
) -> None:
    """Aborts for want of a stamp over `values`, a curve for each of what is remembered, and for hold."""

    def draw(axes: Axes, control: Control) -> None:
        hold = HOLD if control == "optimistic" else HOLD_AS_OF
        for policy, line in zip((*STAMPS, hold), _LINES, strict=True):
            shares = [100 * runs.of(workload_of(value), policy, control).stamp_share for value in values]
            axes.plot(values, shares, line, label="hold" if policy is hold else policy.name, markersize=4, linewidth=1)
        axes.set(title=control, xlabel=label, ylabel="aborted for want of a stamp, %", ylim=(-2, None))

    _draw(file, draw)


def _draw_trade(runs: Runs, file: Path) -> None:
    """Throughput against aborts: what each millisecond of promise or wait buys."""

    def draw(axes: Axes, control: Control) -> None:
        groups: dict[str, tuple[Policy, ...]] = {
            "no hold": (EXACT,), "ahead": AHEAD[:5], "ahead, quantiles": AHEAD[5:], "hold": HOLDS[:4],
            "hold + ahead": HOLDS[4:], "hold, undeclared": UNDECLARED,
        }  # fmt: skip
        if control == "locking":
            groups["reads as of"] = (AS_OF, HOLD_AS_OF)
        for (name, policies), line in zip(groups.items(), "osD^vPX", strict=False):
            points = [(runs.of(BASE, p, control).stamp_share, runs.relative(BASE, p, control)) for p in policies]
            axes.plot([100 * x for x, _ in points], [y for _, y in points], line + ":", label=name, linewidth=0.7)
        axes.axhline(LEAST_THROUGHPUT, color="grey", linewidth=0.7)
        axes.axvline(100 * MOST_STAMP_ABORTS, color="grey", linewidth=0.7)
        axes.set(title=control, xlabel="aborted for want of a stamp, %", ylabel="throughput ÷ late choosers")

    _draw(file, draw)


def _draw(file: Path, draw: Callable[[Axes, Control], None]) -> None:
    """One picture with both controls side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, control in zip(figure.subplots(1, 2), _CONTROLS, strict=True):
        draw(axes, control)
        axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    # No date and no version: the same runs are the same picture.
    metadata: dict[str, Any] = {"Software": None}
    figure.savefig(file, dpi=90, metadata=metadata)


def percent(share: float) -> str:
    """A share as the page has it, in percent."""
    return f"{100 * share:.1f}" if share < 0.0995 else f"{100 * share:.0f}"


def markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    """A table of the page."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["-"] * len(heads), *rows))


def _text(page: Path) -> str:
    if page.exists():
        return page.read_text(encoding="utf-8")
    return "".join(f"<!-- {name} -->\n<!-- end -->\n\n" for name in TABLES_OF_PAGE)


def with_table(page: str, name: str, table: str) -> str:
    """`page` with `table` between the marks of this name. Raises ValueError where it has none."""
    begin, end = f"<!-- {name} -->\n", "<!-- end -->"
    place = re.compile(f"({begin}).*?({end})", re.DOTALL)
    count = len(place.findall(page))
    if count != 1:
        raise ValueError(f"expected one line {begin.strip()} and a later {end} in {_PAGE}, found {count}: add it")
    return place.sub(lambda marks: f"{marks[1]}\n{table}\n\n{marks[2]}", page)


def _main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.timestamp_curves", description="The model's curves.")
    parser.add_argument("--quick", action="store_true", help="short runs: the shape only, the figures mean little")
    parser.add_argument("--into", type=Path, help="the folder of the page (default: docs, or build/timestamps)")
    asked = parser.parse_args()
    folder = asked.into or (ROOT / "build" / "timestamps" if asked.quick else DOCS)
    seconds, _ = timed(lambda: write_page(folder, _QUICK_COMMITS if asked.quick else _COMMITS))
    print(f"{folder / _PAGE} is made anew, in {seconds:.0f} s")


if __name__ == "__main__":
    _main()

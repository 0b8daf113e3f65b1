"""How things are measured side by side, and how the outcome is shown.

What counts is the ratio of two sides measured in turns, within one run, on one machine.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
READING = "benchmarks.log_work"


class SidesDisagree(Exception):
    """Two sides of a benchmark gave different answers: their times say nothing."""


@dataclass(frozen=True)
class Row:
    """One line of the report: `ours` against `rival`, both in `unit` ("s" or "MiB").

    `mark` is the greatest ratio that is good enough, or with no rival the greatest amount; None where the line only
    informs. `answers` is what the sides found, `note` what bounds the ratio.
    """

    case: str
    work: str
    against: str
    ours: float
    rival: float | None = None
    mark: float | None = None
    unit: str = "s"
    answers: tuple[Any, ...] = ()
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours in units of the rival's; None without a rival."""
        return self.ours / self.rival if self.rival else None

    @property
    def holds(self) -> bool | None:
        """Whether the mark is kept; None without a mark."""
        if self.mark is None:
            return None
        return (self.ours if self.ratio is None else self.ratio) <= self.mark

    def to_json(self) -> dict[str, Any]:
        """Everything above, for machines."""
        fields = ("case", "work", "against", "ours", "rival", "unit", "ratio", "mark", "holds", "note")
        return {name: getattr(self, name) for name in fields} | {"answers": list(self.answers)}


def command_of(module: str, *arguments: object) -> list[str]:
    """What runs `module` with `arguments` in a Python process of its own; it is to be started in `ROOT`."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def fresh(work: str, *arguments: object, module: str = READING) -> dict[str, Any]:
    """What `module` reports of `work`, done in a Python process of its own.

    Raises RuntimeError with the process's words where it fails.
    """
    command = command_of(module, work, *arguments)
    # Installed modules have byte code, those of a clone may be compiled at each import.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{work} failed with exit code {done.returncode}:\n{done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def best_fresh(
    works: Sequence[str], path: Path | str, warm_up: Path | str, repetitions: int, module: str = READING
) -> dict[str, dict[str, Any]]:
    """For each of `works` its least times, its least peak memory and its answer, every one in a process of its own.

    The first round is a warm-up of the file cache; then the works take turns. Each does the small table `warm_up`
    before `path`. Raises SidesDisagree.
    """
    for work in works:
        fresh(work, path, warm_up, module=module)
    rounds = [{work: fresh(work, path, warm_up, module=module) for work in _turn(works, n)} for n in range(repetitions)]
    agree(*(found[work]["answer"] for found in rounds for work in works))
    return {
        work: {
            **{name: min(found[work][name] for found in rounds) for name in rounds[0][work] if name != "answer"},
            "answer": rounds[0][work]["answer"],
        }
        for work in works
    }


def interleaved(sides: Mapping[str, Callable[[], Any]], repetitions: int, warmups: int) -> dict[str, list[Any]]:
    """What each side returned in each repetition; the sides take turns, and who begins changes."""
    names = list(sides)
    found: dict[str, list[Any]] = {name: [] for name in names}
    for n in range(warmups + repetitions):
        for name in _turn(names, n):
            gc.collect()
            result = sides[name]()
            if n >= warmups:
                found[name].append(result)
    return found


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that `work` took, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def import_pandas() -> None:
    """Import what PyArrow imports at its first conversion, so that it is no part of a time taken later."""
    import pyarrow as pa

    pa.array([0])


def middle(values: Sequence[float]) -> float:
    """The median: Spark's times have outliers on either side."""
    return median(values)


def agree(*answers: Any) -> Any:
    """The one answer. Raises SidesDisagree where there is more than one."""
    if any(answer != answers[0] for answer in answers):
        raise SidesDisagree(f"the sides gave different answers: {list(dict.fromkeys(map(repr, answers)))}")
    return answers[0]


def show(rows: Sequence[Row], heading: str, console: Console | None = None) -> None:
    """Print `rows`: ratios first, amounts on this machine in brackets; then the marks that were missed."""
    console = console or Console(width=max(Console().width, 150))
    table = Table(title=heading, title_justify="left", show_lines=False)
    for name, side in (
        ("work", "left"), ("against", "left"), ("ratio", "right"), ("mark", "right"), ("holds?", "left"),
        ("(ours)", "right"), ("(rival)", "right"),
    ):  # fmt: skip
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    case = rows[0].case if rows else ""
    for row in rows:
        if row.case != case:
            table.add_section()
            case = row.case
        table.add_row(row.work, row.against, *_cells(row))
    console.print(table)
    for row in rows:
        if row.note:
            console.print(f"{row.case}: {row.work}: {row.note}", highlight=False)
    missed = [row for row in rows if row.holds is False]
    for row in missed:
        console.print(f"[bold red]MISSES[/] {row.case}: {row.work}: {_against_mark(row)}")
    if not missed:
        console.print("every mark holds")


def _cells(row: Row) -> tuple[str, ...]:
    digits = 4 if row.unit == "s" else 0
    amounts = ["" if x is None else f"({x:,.{digits}f} {row.unit})" for x in (row.ours, row.rival)]
    mark = "" if row.mark is None else f"{row.mark:g} ×" if row.ratio is not None else f"{row.mark:g} {row.unit}"
    holds = {None: "", True: "[green]yes[/]", False: "[bold red]MISSES[/]"}[row.holds]
    return "" if row.ratio is None else f"{row.ratio:.3f} ×", mark, holds, *amounts


def _against_mark(row: Row) -> str:
    if row.ratio is None:
        return f"{row.ours:.3f} {row.unit}, the mark is {row.mark:g} {row.unit}"
    return f"{row.ratio:.3f} × {row.against}, the mark is {row.mark:g} ×"


def _turn(names: Sequence[str], number: int) -> list[str]:
    return list(names) if number % 2 == 0 else list(reversed(names))

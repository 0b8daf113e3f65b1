"""A mutation run: `python -m tests.mutation --package owner --sample 40 --seed 1`, see CONTRIBUTING.md."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.mutation import coverage_map
from tests.mutation.operators import Mutant, mutants, mutated
from tests.mutation.trial import Trials

TREE = Path(__file__).parents[2]
PACKAGES = ("protocol", "log", "transaction", "owner")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant: `killed`, `survived`, or `unseen` where no fast test runs its lines.

    `broken` where the tests fail without it too. `code` is what pytest ended with, negative for a signal: a mutant that
    hangs is ended by one.
    """

    module: str
    line: int
    number: int
    change: str
    fate: str
    tests: int
    seconds: float
    code: int


def sample(package: str, size: int, seed: int) -> list[tuple[str, Mutant]]:
    """`size` mutants of a package in an order by chance; the same ones for the same sources and seed.

    Any beginning of it is a sample too: a run that is broken off still says something.
    """
    source = TREE / "src"
    paths = sorted((source / "slackwater" / package).rglob("*.py"))
    paths = [path for path in paths if not {"migrations", "served"} & set(path.parts)]
    texts = {str(path.relative_to(source)): path.read_text(encoding="utf-8") for path in paths}
    pool = [(module, mutant) for module, text in texts.items() for mutant in mutants(text)]
    return random.Random(f"{package} {seed}").sample(pool, min(size, len(pool)))  # noqa: S311


def main() -> int:
    options = _options()
    kept = options.map or Path(tempfile.mkdtemp(prefix="mutation-map-"))
    if not (kept / "durations.json").exists():
        coverage_map.measure(TREE, kept)
    if options.learn:
        coverage_map.measure(TREE, kept, options.learn)
    known = coverage_map.load(kept)
    samples = [sample(package, options.sample, options.seed) for package in options.package]
    chosen = [found for row in itertools.zip_longest(*samples) for found in row if found is not None]
    if options.again:
        known_killed = {
            (v["module"], v["number"]) for v in json.loads(options.again.read_text()) if v["fate"] == "killed"
        }
        chosen = [(module, mutant) for module, mutant in chosen if (module, mutant.number) not in known_killed]
    verdicts = []
    with tempfile.TemporaryDirectory(prefix="mutation-") as root:
        trials = Trials.of(TREE, Path(root))
        for module, mutant in chosen:
            tests = known.tests_of(module, mutant.lines, options.budget)
            doubts = known.tests_of(module, mutant.lines, options.doubt)
            rest = tuple(test for test in doubts if test not in tests)
            verdicts.append(verdict := _tried(trials, module, mutant, (tests, rest), options))
            print(f"{verdict.fate:8} {module}:{verdict.line} ({verdict.tests} tests, {verdict.seconds} s)", flush=True)  # noqa: T201
            if options.report:
                options.report.write_text(json.dumps([asdict(each) for each in verdicts], indent=1))
            if verdict.fate != "killed":
                print(verdict.change, flush=True)  # noqa: T201
    for package in options.package:
        of_package = [v for v in verdicts if v.module.split("/")[1] == package]
        killed = sum(v.fate == "killed" for v in of_package)
        print(f"{package}: {killed} of {len(of_package)} killed")  # noqa: T201
    return 0


def _tried(
    trials: Trials, module: str, mutant: Mutant, rounds: Sequence[tuple[str, ...]], options: argparse.Namespace
) -> Verdict:
    """The verdict of `rounds` of tests: one that survives the first is tried with the next."""
    text, change = mutated((TREE / "src" / module).read_text(encoding="utf-8"), mutant)
    begun = time.monotonic()
    fate, run, code = "unseen", 0, 0
    for tests, limit_s in zip(rounds, (options.limit, options.limit + 2 * options.doubt), strict=True):
        if not tests:
            continue
        run += len(tests)
        with trials.changed(module, text):
            code = trials.run(tests, limit_s)
        # Not to be collected, or not to end in time, is a kill too, but not where the tests do so anyway.
        is_told = code in (0, pytest.ExitCode.TESTS_FAILED) or trials.run(tests, limit_s) == 0
        fate = "broken" if not is_told else "survived" if code == 0 else "killed"
        if code != 0:
            break
    return Verdict(module, mutant.lines[0], mutant.number, change, fate, run, round(time.monotonic() - begun, 1), code)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--package", action="append", choices=PACKAGES, help="again for another one; else all")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--map", type=Path, help="folder that keeps which test runs which line, made if it is empty")
    parser.add_argument("--budget", type=float, default=6.0, help="seconds of tests for a mutant, under coverage.py")
    parser.add_argument("--doubt", type=float, default=60.0, help="seconds of tests, likewise, for one that survives")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds until a mutant is taken to hang: killed")
    parser.add_argument("--learn", nargs="+", help="new tests that the map does not know yet")
    parser.add_argument("--again", type=Path, help="a report: only what was not killed then is tried")
    parser.add_argument("--report", type=Path, help="a JSON file for all verdicts")
    options = parser.parse_args()
    options.package = options.package or list(PACKAGES)
    return options


if __name__ == "__main__":
    sys.exit(main())

"""Which runs of the model are made, each once, and what they mean side by side."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.timestamp_model import Outcome, run
from benchmarks.timestamp_policies import EXACT, Control, Policy
from benchmarks.timestamp_workload import Workload

BASE = Workload(tables=50, zipf=0.8, early=0.5, precision_ms=1, partitions=8)
"""Where one thing is varied, the others are as here; the goal is stated for it."""
ZIPFS = (0.0, 0.4, 0.8, 1.2)
SHARES = (0.0, 0.1, 0.5, 1.0)
TABLES = (5, 50, 500)

MOST_STAMP_ABORTS = 0.01
LEAST_THROUGHPUT = 0.8
"""The goal: no more aborts for want of a stamp, and no less of the throughput of late choosers."""

HOLD = Policy("hold, in order", hold="all", below=True)
AHEAD = (
    *(Policy(f"ahead {ms} ms", ahead_ms=ms) for ms in (10, 50, 100, 200, 500)),
    *(Policy(f"ahead p{100 * share:.0f}", ahead_quantile=share) for share in (0.5, 0.75, 0.9, 0.95)),
)
HOLDS = (
    Policy("hold, exclusive", hold="exclusive"),
    Policy("hold, writers wait", hold="writers"),
    Policy("hold, all wait", hold="all"),
    HOLD,
    replace(HOLD, name="hold + ahead 10 ms", ahead_ms=10),
    replace(HOLD, name="hold + ahead 50 ms", ahead_ms=50),
    replace(HOLD, name="hold + ahead p50", ahead_quantile=0.5),
    replace(HOLD, name="hold + ahead p90", ahead_quantile=0.9),
)
UNDECLARED = (
    replace(HOLD, name="hold, undeclared", declared=False),
    replace(HOLD, name="hold, undeclared, + ahead 50 ms", declared=False, ahead_ms=50),
    replace(HOLD, name="hold, undeclared, + ahead p90", declared=False, ahead_quantile=0.9),
)
AS_OF = replace(EXACT, name="reads as of", reads_as_of=True)
HOLD_AS_OF = replace(HOLD, name="hold + reads as of", reads_as_of=True)
"""For locking only: optimistic transactions read what was there when they began."""


class Runs:
    """Runs of the model with `commits` each; none is made twice."""

    def __init__(self, commits: int, seed: int = 1) -> None:
        self._commits, self._seed = commits, seed
        self._found: dict[tuple[Workload, Policy, Control], Outcome] = {}

    def of(self, workload: Workload, policy: Policy = EXACT, control: Control = "optimistic") -> Outcome:
        """The outcome; precision and share do not matter to those who do not ask."""
        if workload.early == 0:
            workload = replace(workload, precision_ms=1)
        key = (workload, policy, control)
        if key not in self._found:
            self._found[key] = run(*key, seed=self._seed, commits=self._commits)
        return self._found[key]

    def relative(self, workload: Workload, policy: Policy = EXACT, control: Control = "optimistic") -> float:
        """The throughput in units of that of late choosers, who keep exact stamps and may choose the past."""
        late = self.of(replace(workload, early=0.0), EXACT, control)
        return self.of(workload, policy, control).throughput / late.throughput

    def meets_goal(self, workload: Workload, policy: Policy, control: Control = "optimistic") -> bool:
        """Whether there are few enough aborts for want of a stamp at enough throughput."""
        is_rare = self.of(workload, policy, control).stamp_share < MOST_STAMP_ABORTS
        return is_rare and self.relative(workload, policy, control) >= LEAST_THROUGHPUT

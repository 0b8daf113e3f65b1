"""What people do in a week is done by delta-spark with the very lines that the suite does it by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people.tasks import TASKS, Task

from .delta_spark import DeltaSpark, DeltaSparkError

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_of_a_week_is_done_by_delta_spark(delta_spark: DeltaSpark, tmp_path: Path, task: Task) -> None:
    if task.by_delta_spark:
        delta_spark.do(task.name, str(tmp_path / "table"))
    else:
        with pytest.raises(DeltaSparkError, match="DELTA_"):
            delta_spark.do(task.name, str(tmp_path / "table"))

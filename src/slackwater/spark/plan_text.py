"""Plans as people see them: columns of ours by words, without the prefix that keeps them apart from users' columns."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from pyspark.sql import DataFrame

from slackwater.spark.session.identifiers import plan_in_words
from slackwater.spark.session.local_frame import local_frame


def explain(original: Callable[..., None], self: DataFrame, *args: Any, **kwargs: Any) -> None:
    """In the place of `DataFrame.explain`, whose arguments these are: what it prints, in words."""
    del self
    with io.StringIO() as printed:
        with redirect_stdout(printed):
            original(*args, **kwargs)
        sys.stdout.write(plan_in_words(printed.getvalue()))


def explained(frame: DataFrame) -> DataFrame:
    """What EXPLAIN answered, in words."""
    rows = [(plan_in_words(row[0]),) for row in frame.collect()]
    return local_frame(frame.sparkSession, rows, frame.schema)

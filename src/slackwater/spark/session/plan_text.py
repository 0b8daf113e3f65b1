"""Readable plan texts: internal column names without the prefix that prevents collisions with users' columns."""

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
    """Replace `DataFrame.explain`, with the same arguments: print the plan with readable column names."""
    del self
    with io.StringIO() as printed:
        with redirect_stdout(printed):
            original(*args, **kwargs)
        sys.stdout.write(plan_in_words(printed.getvalue()))


def explained(frame: DataFrame) -> DataFrame:
    """Return the result of EXPLAIN with readable column names."""
    rows = [(plan_in_words(row[0]),) for row in frame.collect()]
    return local_frame(frame.sparkSession, rows, frame.schema)

"""Plans as people see them: columns of ours by words, without the prefix that keeps them apart from users' columns."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from pyspark.sql import DataFrame

from slackwater.spark.session.given_rows import given_rows
from slackwater.spark.session.names import plan_in_words


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
    return given_rows(frame.sparkSession, rows, frame.schema)

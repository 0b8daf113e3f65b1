"""Check of written files: they must hold as many rows as Spark counted during the write."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.errors import StorageError
from slackwater.spark.session.classic_connect import new_observation, observed
from slackwater.spark.storage.shared_storage import WHAT_TO_DO, not_shared

_ROWS = "rows"


class CountedRows:
    """The rows of a frame, counted by the tasks that write them. Write the attribute `frame` once.

    The count arrives at the end of the job, from the successful task attempts only. Repeated or speculative attempts do
    not change it. The count is independent of files, so the check detects any lost file.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._plain = frame
        self._observation = new_observation(frame.sparkSession)
        self.frame = frame.observe(self._observation, F.count(F.lit(1)).alias(_ROWS))

    def require(self, found: int, where: str, left_anything: bool) -> None:
        """Raise StorageError if the files hold `found` rows, and Spark counted another number.

        `left_anything`: whether the job left any file. If it left none, Spark wrote to another location, and the error
        is StorageRefused.
        """
        counted = observed(self._observation, _ROWS)
        if counted is None:
            # A listener's event was dropped or late. This count may wrongly reject rows that differ between runs.
            counted = self._plain.count()
        if counted == found:
            return
        if not left_anything:
            raise not_shared(where, f"a place of its own to write {counted} rows to")
        raise StorageError(
            f"{where}: Spark wrote {counted} rows, and the files that this process finds there hold {found}: nothing "
            f"was committed; {WHAT_TO_DO}; where that is so, look for what removes files there, and repeat it"
        )

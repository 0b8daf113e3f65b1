"""How many rows Spark wrote, by its own count: what the files that are found afterwards must hold."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.errors import StorageError
from slackwater.spark.session.classic_connect import new_observation, observed
from slackwater.spark.session.shared_storage import WHAT_TO_DO, not_shared

_ROWS = "rows"


class CountedRows:
    """The rows of `frame`, counted by the tasks that write them; `frame` of this object is what to write, once.

    The count comes with the end of the job, and only from attempts of tasks that counted for it: a repeated or a
    speculative one changes nothing. It says nothing of files, hence whatever loses one is found by it.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._plain = frame
        self._observation = new_observation(frame.sparkSession)
        self.frame = frame.observe(self._observation, F.count(F.lit(1)).alias(_ROWS))

    def require(self, found: int, where: str, left_anything: bool) -> None:
        """Raise StorageError where the files hold other than as many rows as Spark counted, `found`.

        `left_anything`: whether there is a trace of the job at all. Where none is, Spark wrote to another place, and
        the error is StorageRefused.
        """
        counted = observed(self._observation, _ROWS)
        if counted is None:
            # A listener's event was dropped or late. Rows that differ from run to run may then be refused wrongly.
            counted = self._plain.count()
        if counted == found:
            return
        if not left_anything:
            raise not_shared(where, f"a place of its own to write {counted} rows to")
        raise StorageError(
            f"{where}: Spark wrote {counted} rows, and the files that this process finds there hold {found}: nothing "
            f"was committed; {WHAT_TO_DO}; where that is so, look for what removes files there, and repeat it"
        )

"""A process of ours with a Hive metastore: runs the statements of its arguments, prints the rows of each as JSON.

Arguments: the folder that the metastore and the warehouse are in, then statements.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import slackwater
from tests.interop.metastore import settings


def main(folder: str, statements: list[str]) -> None:
    """Run `statements` one after the other; the last line of the output is a list of lists of rows."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in settings(folder).items():
        builder = builder.config(key, value)
    spark = slackwater.enable(builder.getOrCreate())
    answers = [[list(map(str, row)) for row in spark.sql(text).collect()] for text in statements]
    spark.stop()
    sys.stdout.write("\n" + json.dumps(answers) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

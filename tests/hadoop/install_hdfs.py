"""HDFS in a process: `python -m tests.hadoop.install_hdfs` fetches it, of the Hadoop that PySpark has.

It is Hadoop's mini cluster without its clients, which PySpark has, 56 MB. The folder is `$SLACKWATER_HDFS`, or one
named after the version in the user's cache.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.stores.install_connector import ALONE, cached, fetched, hadoop_version


def folder() -> Path:
    """Where it is, or would be."""
    given = os.environ.get("SLACKWATER_HDFS")
    return Path(given).resolve() if given else cached(f"hadoop-minicluster-{hadoop_version()}")


def install() -> Path:
    """Fetch the JAR; what is there already is kept."""
    return fetched(folder(), [("org.apache.hadoop", "hadoop-client-minicluster", hadoop_version(), ALONE)])


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")

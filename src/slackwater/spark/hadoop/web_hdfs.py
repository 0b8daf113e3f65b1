"""WebHDFS access: lets Spark's own reader use stores without a Hadoop connector, if Spark is one local process.

Every Spark includes Hadoop's WebHDFS client. This process serves its stores by WebHDFS, so that Spark reads rows with
the same plans as on a local disk. Source: Hadoop's `dfs.webhdfs.rest-csrf.*` (a header of each request).
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.session.classic_connect import is_one_process
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore
from slackwater.storage.webhdfs_server import WebHdfs

_LOG = logging.getLogger(__name__)
_TRIED = "_slackwater_web_hdfs"
_HEADER = "dfs.webhdfs.rest-csrf"
_EXPECTED = "slackwater"
_LOCK = threading.Lock()


def served_stores(spark: SparkSession, store: ObjectStore) -> WebHdfs | None:
    """Return the server of `store` for Spark's local JVM, or None if Spark runs elsewhere or its test read fails.

    Also None for local and Hadoop stores. The test read runs once per session.
    """
    if store.local_root is not None or isinstance(store, HadoopStore) or not is_one_process(spark):
        return None
    with _LOCK:
        if _TRIED not in spark.__dict__:
            spark.__dict__[_TRIED] = _tried(spark)
    found: WebHdfs | None = spark.__dict__[_TRIED]
    return found


def _tried(spark: SparkSession) -> WebHdfs | None:
    session: Any = spark
    settings = session._jsc.hadoopConfiguration()
    served = _of_process(os.getpid())
    if settings.get(f"{_HEADER}.enabled") == "true" and settings.get(f"{_HEADER}.custom-header") != served.header:
        return None  # The session uses its own header for WebHDFS.
    settings.set(f"{_HEADER}.enabled", "true")
    settings.set(f"{_HEADER}.custom-header", served.header)
    settings.set(f"{_HEADER}.methods-to-ignore", "NONE")
    try:
        if _read(session, f"{served.root(_sample())}/{_EXPECTED}") == _EXPECTED:
            return served
    except (Py4JError, PySparkException) as error:
        _LOG.info(
            "Hadoop's client for WebHDFS cannot read here, so Arrow transports the rows: %s", str(error).splitlines()[0]
        )
    return None


def _read(session: Any, url: str) -> str:
    path = session._jvm.org.apache.hadoop.fs.Path(url)
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    stream = path.getFileSystem(configuration).open(path)
    try:
        return str(session._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


@functools.cache
def _of_process(_: int) -> WebHdfs:
    """Return the server of this process. A forked process has its own."""
    return WebHdfs()


@functools.cache
def _sample() -> ObjectStore:
    store = open_store("memory://slackwater-webhdfs")
    store.put(_EXPECTED, _EXPECTED.encode())
    return store

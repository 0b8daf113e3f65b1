"""The two kinds of Spark session, classic and Connect, and the operations with a different implementation in each.

Objects of the JVM are in `jvm_objects.py`, frames and their plans in `frames.py` and `plan_text.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.spark.session.jvm_objects import java_class, scala_texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_FILE_SYSTEM = re.compile(r"No FileSystem for scheme|Class [\w.$]*FileSystem not found")
_GUESSED_PARALLELISM = 16
_HADOOP_DEFAULTS = "core-default.xml"
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_PYTHON_SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python")
# Spark notifies listeners shortly after the end of a job, or never if their queue overflows.
_OBSERVED_POLL_S, _OBSERVED_POLLS = 0.002, 5_000


def is_connect(spark: SparkSession) -> bool:
    """Return whether `spark` is a Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_one_process(spark: SparkSession) -> bool:
    """Return whether Spark's driver and executors are one process of this machine.

    Always False for Connect, because the client cannot find out.
    """
    if is_connect(spark):
        return False
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def workers_have_this_python(spark: SparkSession) -> bool:
    """Return whether the Python workers of a classic session on this machine run this process's Python."""
    told = shutil.which(spark.sparkContext.pythonExec)
    # Compare the folders unresolved, because the Python of a virtual environment is a link to one without its packages.
    return told is not None and Path(told).parent == Path(sys.executable).parent


def use_this_python(spark: SparkSession) -> None:
    """Set the Python of a classic session's workers on this machine to this process's, unless the user chose one.

    PySpark's default is the first `python3` of the PATH, possibly without this package.
    """
    if is_one_process(spark) and sys.executable and not _chooses_python(spark.sparkContext.getConf().get):
        spark.sparkContext.pythonExec = sys.executable


@contextmanager
def this_python_for_server(options: Mapping[str, str]) -> Iterator[None]:
    """Make a Connect server started by PySpark on this machine use this process's Python, within the block.

    A server reads this choice once, at its start. `options` are the options of the session builder. The user's choice
    takes precedence.
    """
    remote = options.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    url = remote or options.get("spark.master") or os.environ.get("MASTER") or ""
    if not url.startswith("local") or not sys.executable or _chooses_python(options.get):
        yield
        return
    os.environ[_PYTHONS[0]] = sys.executable
    try:
        yield
    finally:
        os.environ.pop(_PYTHONS[0], None)


def _chooses_python(setting: Callable[[str], str | None]) -> bool:
    return any(map(os.environ.get, _PYTHONS)) or any(map(setting, _PYTHON_SETTINGS))


def default_parallelism(spark: SparkSession) -> int:
    """Return Spark's default number of tasks. Return a guess if a Connect server does not set it."""
    told = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    if told is None and is_connect(spark):
        told = spark.conf.get("spark.default.parallelism", None) or str(_GUESSED_PARALLELISM)
    return max(1, int(told)) if told is not None else int(spark.sparkContext.defaultParallelism)


def new_observation(spark: SparkSession) -> Any:
    """Return an observation for `DataFrame.observe` of the session."""
    if is_connect(spark):
        from pyspark.sql.connect.observation import Observation as ConnectObservation

        return ConnectObservation()
    from pyspark.sql import Observation

    return Observation()


def observed(observation: Any, name: str, sleep: Callable[[float], None] = time.sleep) -> Any:
    """Return the value `name` observed in a finished job, None if Spark does not report the value in time."""
    if type(observation).__module__.startswith("pyspark.sql.connect"):
        return observation.get.get(name)
    future = observation._jo.future()
    for _ in range(_OBSERVED_POLLS):
        if future.isCompleted():
            return observation._jo.getAsJava().get(name)
        sleep(_OBSERVED_POLL_S)
    return None


def all_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings of the session by name. Settings with Spark's default value can be missing."""
    if is_connect(spark):
        return dict(spark.conf.getAll)
    # PySpark makes several calls into the JVM per setting.
    return scala_texts(spark._jsparkSession.conf().getAll())


def hadoop_setting(spark: SparkSession, key: str) -> str | None:
    """Return the value of `key` in Hadoop's configuration, None if not set. Always None for Connect."""
    if is_connect(spark):
        return None
    found: str | None = spark._jsc.hadoopConfiguration().get(key)
    return found


def chosen_hadoop_setting(spark: SparkSession, key: str) -> str | None:
    """Return `hadoop_setting`, or None if the value is Hadoop's default."""
    found = hadoop_setting(spark, key)
    if found is None:
        return None
    sources = spark._jsc.hadoopConfiguration().getPropertySources(key)
    return None if sources is not None and list(sources) == [_HADOOP_DEFAULTS] else found


def knows_scheme(spark: SparkSession, scheme: str, root: str) -> bool:
    """Return whether Spark has a Hadoop file system for `scheme`.

    A Connect server analyses a read of `root` to find out.
    """
    try:
        if is_connect(spark):
            spark.read.format("binaryFile").load(root).schema  # noqa: B018  (the access analyses the plan)
        else:
            configuration = spark._jsc.hadoopConfiguration()
            file_system = java_class(spark, "org.apache.hadoop.fs.FileSystem")
            file_system.getFileSystemClass(scheme, configuration)
    except Exception as error:  # noqa: BLE001  (the later read reports any other error)
        return _NO_FILE_SYSTEM.search(str(error)) is None
    return True

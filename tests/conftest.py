"""Options of the whole suite, and the one Spark session of a run: classic, or Connect with `--connect`."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests import java
from tests.connected import connected
from tests.examples import load_profile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# What names no zone is of the session's, which is UTC here, never of the machine's: a machine in another zone tells
# them apart. The JVM and the workers inherit it.
os.environ["TZ"] = "Asia/Kathmandu"
time.tzset()

# Beside other parts of the suite a process can wait for its turn longer than httpx does (5 s), which says nothing of a
# server: all calls of tests without a timeout of their own wait this long.
_PATIENCE = inspect.signature(httpx.get).parameters["timeout"].default
_PATIENCE.connect = _PATIENCE.read = _PATIENCE.write = _PATIENCE.pool = 60.0

# Where there is room for the files of a whole run, databases of PostgreSQL too.
_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, not a file
_ROOM_BYTES = 8 << 30


def _has_room(place: Path) -> bool:
    """Whether files can be made there, run, and take all that a run may leave."""
    if not (place.is_dir() and os.access(place, os.W_OK)):
        return False
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize >= _ROOM_BYTES and not found.f_flag & os.ST_NOEXEC


# Databases and logs wait for the disk at each commit, and no test cuts the power: files are in memory. In the long run
# they are on the disk.
if "TMPDIR" not in os.environ and "--long" not in sys.argv and _has_room(_MEMORY):
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None

# Of all JVMs of a run: those of children too, and of benchmarks.
os.environ.setdefault("JDK_JAVA_OPTIONS", java.options())

# Without `--all`, this many variations of a Spark test are represented by their first one; through Connect, this many
# tests of a file too.
_VARIATIONS, _TESTS = 20, 10

# What a session has from its start to its end. No test looks at the pages of Spark: it keeps little for them.
_FIXED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "100",
    # With one process there is nothing to wait for, and in local mode nobody looks again once the wait is over: a task
    # that prefers the host of HDFS would wait for ever beside others that are local.
    "spark.locality.wait": "0",
}

# Plans are not compiled at all in the short run: in the long one, the demo and beside other engines they are.
_NOT_COMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--connect", action="store_true", help="run the Spark tests in a Connect session")
    parser.addoption("--cluster", action="store_true", help="run the Spark tests on a master and two workers")
    parser.addoption("--browser", action="store_true", help="run the tests of pages in headless Chromium")
    parser.addoption("--long", action="store_true", help="run the long tests too, and all others")
    parser.addoption("--all", action="store_true", help="run all variations of Spark tests, and all through Connect")
    parser.addoption("--rows", choices=["spark", "arrow"], help="how rows travel in the Spark tests, unless they say")
    parser.addoption("--seed", type=int, help="run one schedule of tests/simulation, again")


def pytest_configure(config: pytest.Config) -> None:
    """Tests of properties try fewer examples without `--long`."""
    config.addinivalue_line("markers", "browser: needs headless Chromium, and runs with --browser")
    load_profile(config.getoption("--long"))


def pytest_collection() -> None:
    """Look for no garbage while tests are collected: none of that is any, and looking takes a third of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From now on what was collected is not looked at."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread whose tests are not to run: reading takes as long as many tests.

    Those without Spark tests where only these are to run, and those of a cluster where there is none.
    """
    if collection_path.match("tests/cluster/test_*.py") and not config.getoption("--cluster"):
        return True
    if config.getoption("markexpr") != "spark" or not collection_path.match("test_*.py"):
        return None
    return True if "mark.spark" not in collection_path.read_text(encoding="utf-8") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what this run is not for: what others stand for, what the modes share."""
    chosen = _Choice(config)
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        (kept if chosen.has(item) else left_out).append(item)
    unmarked = [item.nodeid for item in items if "spark" in getattr(item, "fixturenames", ()) and not _is_marked(item)]
    if unmarked:
        raise pytest.UsageError(f"{unmarked[0]} needs Spark: without pytest.mark.spark it never runs through Connect")
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _is_marked(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) is not None for name in ("spark", "interop"))


class _Choice:
    """The tests that a run is for, asked in their order."""

    def __init__(self, config: pytest.Config) -> None:
        self._is_long = config.getoption("--long")
        self._has_all = self._is_long or config.getoption("--all")
        self._through_connect = config.getoption("--connect")
        self._with_browser = config.getoption("--browser")
        self._variations: Counter[str] = Counter()
        self._tests: dict[str, dict[str, int]] = {}

    def has(self, item: pytest.Item) -> bool:
        """Whether the run is for a test."""
        marks = {mark.name for mark in item.iter_markers()}
        return self._may(marks) and (
            self._has_all or "modes" in marks or "spark" not in marks or self._stands_for_others(item)
        )

    def _may(self, marks: set[str]) -> bool:
        if ("long" in marks and not self._is_long) or ("browser" in marks and not self._with_browser):
            return False
        if not self._through_connect or "spark" not in marks:
            return True
        return "classic" not in marks and ("shared" not in marks or self._has_all)

    def _stands_for_others(self, item: pytest.Item) -> bool:
        """Whether it is the first of some variations, and through Connect also of some tests of its file."""
        test = item.nodeid.partition("[")[0]
        of_file = self._tests.setdefault(test.partition("::")[0], {})
        number = of_file.setdefault(test, len(of_file))
        self._variations[test] += 1
        is_first = self._variations[test] % _VARIATIONS == 1
        return is_first and (not self._through_connect or number % _TESTS == 0)


@pytest.fixture(scope="session", autouse=True)
def repeated_migrations() -> Iterator[None]:
    """Hundreds of tests have a database of their own: Alembic makes the first one of each process."""
    from tests.owner.database import migrating

    with migrating.repeated_migrations():
        yield


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in UTC with two shuffle partitions; it ends with the run."""
    with contextlib.ExitStack() as stack:
        yield from _session(request.config, stack, tmp_path_factory)


def _session(
    config: pytest.Config, stack: contextlib.ExitStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder
    if config.getoption("--connect"):
        # A server tells its clients no secrets: those of a store are in the environment of both.
        os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.ui.explainMode": "simple",
    }
    master = "local[2]"
    if config.getoption("--cluster"):
        from tests.cluster import standalone

        root = tmp_path_factory.mktemp("cluster")
        master = stack.enter_context(standalone.standalone_cluster(root))
        if config.getoption("--connect"):
            # No child of this process, as one would be that PySpark starts.
            master = stack.enter_context(standalone.connect_server(root, master))
            # As a client of a server has it, and PySpark sets it for a server that it starts.
            os.environ["SPARK_REMOTE"] = master
        else:
            settings |= standalone.SETTINGS
    if not config.getoption("--long"):
        settings |= _NOT_COMPILED
    # Else it is in the working directory, and parts of the suite beside each other find the tables of one another.
    # Spark takes this setting of Hive, and only this one can be given to a server by PySpark.
    warehouse = {"spark.hadoop.hive.metastore.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri()}
    fixed = _fixed_settings(config) | warehouse
    if master.startswith("sc://"):
        builder = builder.remote(master)
    elif config.getoption("--connect"):
        builder = connected(builder, master, fixed)
    else:
        _know_classes()
        builder = builder.master(master)
        # Fixed as well; but PySpark has each client of Connect set what is named `spark.sql.…`, and none may set this.
        settings |= {**fixed, "spark.sql.ui.retainedExecutions": "20"}
    if rows := config.getoption("--rows"):
        settings["spark.slackwater.rows"] = rows
    if connector := os.environ.get("SLACKWATER_CONNECTOR"):
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {connector}/* pyspark-shell"
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
    if config.getoption("--connect"):
        _close_clients()


def _know_classes() -> None:
    """Let Py4J ask for a class or a package only once.

    PySpark names classes by their short names at each call of a function, and for each the JVM looks into all JARs: a
    tenth of a run.
    """
    from py4j.java_gateway import JavaClass, JavaPackage, JVMView

    def known(find: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        @functools.wraps(find)
        def get(self: Any, name: str) -> Any:
            found = find(self, name)
            if isinstance(found, JavaClass | JavaPackage):
                self.__dict__[name] = found
            return found

        return get

    for kind in (JVMView, JavaPackage):
        kind.__getattr__ = known(kind.__getattr__)


def _fixed_settings(config: pytest.Config) -> dict[str, str]:
    """Those of the long run, or of the short one."""
    if config.getoption("--long"):
        return _FIXED
    # Spark's errors name the line of a program: for that, each call of a column's method asks the JVM for settings.
    return {**_FIXED, "spark.python.sql.dataFrameDebugging.enabled": "false"}


@pytest.fixture(scope="session")
def hdfs_root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an HDFS in a process of its own, which `make stores` has fetched."""
    from tests.hadoop.places import hdfs

    with hdfs(tmp_path_factory.mktemp("hdfs")) as url:
        yield url


def _close_clients() -> None:
    """Close those that tests left open: with the server gone, each would look for it for minutes as the run ends."""
    from pyspark.sql.connect.client import SparkConnectClient

    for client in [found for found in gc.get_objects() if type(found) is SparkConnectClient]:
        client.close()

"""The two kinds of Spark session, classic and Connect, and what has to be done differently in each.

Everything that touches the JVM or a Connect plan is here (and at the foot of `condition_trees.py`, for conditions; in
`spark/hadoop`, for Hadoop's file systems).
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, PySparkException

from slackwater.errors import SlackwaterError
from slackwater.predicate.sql_split import plan_is_time_dependent
from slackwater.spark.session.temporary_settings import with_settings

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

_PATHS_ONE_BY_ONE = 16
_PLAN = "_slackwater_plan"
# The leaves of plans whose rows stay the same.
_STEADY_LEAVES = frozenset({"LogicalRelation", "LocalRelation", "Range"})
_WRITE_FAILED = "TASK_WRITE_FAILED"
_PARSED_FILTER = re.compile(r"(?m)^'?Filter (.*)$")
# The first line lists the columns, with names that may look like anything.
_ANALYSED = re.compile(r"(?s)== Analyzed Logical Plan ==\n[^\n]*\n(.*?)\n== Optimized Logical Plan ==")
_ATTRIBUTE_ID = re.compile(r"#(\d+)L?\Z")
_ALL_FIELDS = 2**31 - 1
_WHOLE_PLANS = {
    "spark.sql.debug.maxToStringFields": str(_ALL_FIELDS),
    # Spark's own default, which leaves room for what follows the text.
    "spark.sql.maxPlanStringLength": str(2**31 - 16),
    # It matches nothing.
    "spark.sql.redaction.string.regex": "(?!)",
}
_NO_FILE_SYSTEM = re.compile(r"No FileSystem for scheme|Class [\w.$]*FileSystem not found")
_GUESSED_PARALLELISM = 16
_HADOOP_DEFAULTS = "core-default.xml"
_PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_PYTHON_SETTINGS = ("spark.pyspark.python", "spark.pyspark.driver.python")
# Listeners hear of the end of a job a moment after the job itself; they may never, where their queue overflows.
_OBSERVED_POLL_S, _OBSERVED_POLLS = 0.002, 5_000


def is_connect(spark: SparkSession) -> bool:
    """Whether `spark` is a Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def is_one_process(spark: SparkSession) -> bool:
    """Whether Spark's driver and executors are one process of this machine; not known of a Connect server, so False."""
    if is_connect(spark):
        return False
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def workers_have_this_python(spark: SparkSession) -> bool:
    """Whether the Python workers of a classic session on this machine run by this process's Python."""
    told = shutil.which(spark.sparkContext.pythonExec)
    # By name: an environment's Python is a link to one that has not its packages.
    return told is not None and Path(told).parent == Path(sys.executable).parent


def use_this_python(spark: SparkSession) -> None:
    """Run the Python workers of a classic session on this machine by this process's Python, unless the user chose one.

    PySpark's own default is the first `python3` of the PATH, which need not have this package.
    """
    if is_one_process(spark) and sys.executable and not _chooses_python(spark.sparkContext.getConf().get):
        spark.sparkContext.pythonExec = sys.executable


@contextmanager
def this_python_for_server(options: Mapping[str, str]) -> Iterator[None]:
    """Within the block, a Connect server that PySpark starts on this machine takes this process's Python.

    A server reads its choice once, as it starts. `options` are those of the builder. A choice of the user stays.
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


def python_worker_error(error: PySparkException) -> str:
    """What the exception says that a Python of Spark's ended with, in one line; else its own first line."""
    lines = str(error).strip().splitlines()
    return next((line for line in reversed(lines) if "Error: " in line), lines[0])


def default_parallelism(spark: SparkSession) -> int:
    """In how many tasks Spark runs what is given to it; of a Connect server that says nothing, a guess."""
    told = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    if told is None and is_connect(spark):
        told = spark.conf.get("spark.default.parallelism", None) or str(_GUESSED_PARALLELISM)
    return max(1, int(told)) if told is not None else int(spark.sparkContext.defaultParallelism)


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame without rows; classic PySpark would make it of a job in the Python of executors."""
    if is_connect(spark):
        return spark.createDataFrame([], schema)
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    session = spark._jsparkSession
    found = session.createDataFrame(java_class(spark, "java.util.ArrayList")(), session.parseDataType(schema.json()))
    return ClassicDataFrame(found, spark)


def new_observation(spark: SparkSession) -> Any:
    """What `DataFrame.observe` of such a session takes."""
    if is_connect(spark):
        from pyspark.sql.connect.observation import Observation as ConnectObservation

        return ConnectObservation()
    from pyspark.sql import Observation

    return Observation()


def observed(observation: Any, name: str, sleep: Callable[[float], None] = time.sleep) -> Any:
    """The value `name` that was observed in a job that has ended, None where word of it does not come in time."""
    if type(observation).__module__.startswith("pyspark.sql.connect"):
        return observation.get.get(name)
    future = observation._jo.future()
    for _ in range(_OBSERVED_POLLS):
        if future.isCompleted():
            return observation._jo.getAsJava().get(name)
        sleep(_OBSERVED_POLL_S)
    return None


def same_columns(original: DataFrame, replacement: DataFrame) -> DataFrame:
    """`replacement`, so that column references made from `original` (`original.a`) resolve to its columns.

    Both have the same column names in the same order. Classic references carry the ids of the attributes they were
    made from, hence the new columns take over those ids; Connect references carry the id of a plan.
    """
    if is_connect(original.sparkSession):
        return same_plan(original, replacement)

    session = original.sparkSession
    old_plan = original._jdf.queryExecution().analyzed()
    new_plan = replacement._jdf.queryExecution().analyzed()
    old, new = old_plan.output(), new_plan.output()
    alias = java_class(session, "org.apache.spark.sql.catalyst.expressions.Alias")
    empty = scala_object(session, "scala.collection.immutable.Nil")
    none = scala_object(session, "scala.None")
    aliases = java_class(session, "java.util.ArrayList")()
    # What has the id already stays: where one attribute stands for itself, Spark gives other ids to all.
    pairs = zip(attribute_ids(old), attribute_ids(new), strict=True)
    kept = {position for position, (before, after) in enumerate(pairs) if before == after}
    for position in range(old.size()):
        if position in kept:
            aliases.add(new.apply(position))
            continue
        attribute = old.apply(position)
        aliases.add(alias(new.apply(position), attribute.name(), attribute.exprId(), empty, none, empty))
    scala_aliases = java_class(session, "scala.jdk.javaapi.CollectionConverters").asScala(aliases).toSeq()
    project = java_class(session, "org.apache.spark.sql.catalyst.plans.logical.Project")(scala_aliases, new_plan)
    return frame_of_plan(session, project)


def frame_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """The frame of a logical plan of the JVM, in a classic session."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    of_rows = static_member(spark, "org.apache.spark.sql.classic.Dataset", "ofRows")
    return ClassicDataFrame(of_rows(spark._jsparkSession, plan), spark)


def attribute_ids(attributes: Any) -> list[str]:
    """The ids by which a classic plan knows its attributes, in one call into the JVM for all of them."""
    text = str(attributes.mkString("\0"))
    return [match[1] for each in text.split("\0") if (match := _ATTRIBUTE_ID.search(each))]


def same_plan(original: DataFrame, replacement: DataFrame) -> DataFrame:
    """`replacement`, known to Connect under the plan id of `original`; classic sessions know no such thing."""
    if is_connect(original.sparkSession):
        plan: Any = replacement._plan
        # The id is a plain attribute in older releases of PySpark, and a property over this one in newer ones.
        name = "_root_plan_id" if hasattr(plan, "_root_plan_id") else "_plan_id"
        setattr(plan, name, original._plan._plan_id)
    return replacement


def java_class(spark: SparkSession | SparkContext, name: str) -> Any:
    """A class of the JVM by its full name. By `_jvm.org.apache…` each dot would be a question to the JVM."""
    from py4j.java_gateway import JavaClass

    return JavaClass(name, spark._jvm._gateway_client)  # type: ignore[union-attr]


def static_member(spark: SparkSession | SparkContext, name: str, member: str) -> Any:
    """A static method of the JVM's class `name`, or a static value of it that stays; the JVM is asked for it once."""
    return _static_member(spark._jvm._gateway_client, name, member)  # type: ignore[union-attr]


@functools.lru_cache(maxsize=256)
def _static_member(client: Any, name: str, member: str) -> Any:
    from py4j.java_gateway import JavaClass

    return getattr(JavaClass(name, client), member)


def scala_object(spark: SparkSession, name: str) -> Any:
    """An object of Scala by its full name."""
    return static_member(spark, f"{name}$", "MODULE$")


def with_methods(frame: DataFrame, methods: Mapping[str, Callable[..., Any]]) -> DataFrame:
    """`frame`, whose methods of these names ask these functions for their result."""
    if is_connect(frame.sparkSession):
        from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

        connect: DataFrame = _overriding(ConnectDataFrame, tuple(methods))(frame._plan, frame.sparkSession)
        connect._slackwater_methods = methods  # type: ignore[attr-defined]
        if (schema := frame.__dict__.get("_cached_schema")) is not None:
            # What the server said, or was told, need not be asked again.
            connect._cached_schema = schema  # type: ignore[attr-defined]
        return connect
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    classic: Any = _overriding(ClassicDataFrame, tuple(methods))(frame._jdf, frame.sparkSession)
    classic._slackwater_methods = methods
    # What was asked of the JVM need not be asked again.
    classic.__dict__.update({key: frame.__dict__[key] for key in ("schema", _PLAN) if key in frame.__dict__})
    return classic  # type: ignore[no-any-return]


def with_known_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """`frame`, which in a Connect session tells `schema` as its own, and asks no server.

    The plan stays unchanged. PySpark hands the schema on to what keeps the columns, such as `filter` and `limit`; of
    other frames that are made of this one the server tells the schema.
    """
    if is_connect(frame.sparkSession):
        # Its own copy: a schema can be added to.
        frame._cached_schema = type(schema)(list(schema.fields))  # type: ignore[attr-defined]
    return frame


def plain_method(frame: DataFrame, name: str) -> Callable[..., DataFrame]:
    """The method `name` of `frame` as Spark has it."""
    from pyspark.sql import DataFrame as AnyDataFrame

    base = next(c for c in type(frame).__mro__ if c.__module__.startswith("pyspark.") and c is not AnyDataFrame)
    return functools.partial(getattr(base, name), frame)


def read_paths(spark: SparkSession, reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """`reader.load(paths)`, analysed: a path that is missing raises here."""
    frame: DataFrame
    if is_connect(spark):
        frame = reader.load(list(paths))
        _ = frame.schema
    elif len(paths) <= _PATHS_ONE_BY_ONE:
        frame = reader.load(list(paths))
    else:
        # Every element is a call into the JVM; one text that is split there is one. No path holds a NUL.
        split = java_class(spark, "java.util.regex.Pattern").compile("\0").split("\0".join(paths))
        frame = reader._df(reader._jreader.load(split))
    return frame


def relation_of(frame: DataFrame) -> Any:
    """The relation of files that `frame`, one that `read_paths` gave in a classic session, reads."""
    return frame._jdf.queryExecution().analyzed().collectLeaves().apply(0).relation()


def frame_of_relation(spark: SparkSession, relation: Any, schema: StructType | None = None) -> DataFrame:
    """A query for all columns of a relation of files in a classic session; no other frame has its attributes.

    A bare relation would be a table to Spark, and INSERT into a view of it would overwrite the files. `schema` is the
    frame's where it is known: it need not be asked for then.
    """
    plans = "org.apache.spark.sql"
    plan = scala_object(spark, f"{plans}.execution.datasources.LogicalRelation").apply(relation, False)
    project = java_class(spark, f"{plans}.catalyst.plans.logical.Project")(plan.output(), plan)
    frame = frame_of_plan(spark, project)
    frame.__dict__[_PLAN] = project
    if schema is not None:
        # Its own copy: a schema can be added to.
        frame.__dict__["schema"] = type(schema)(list(schema.fields))
    return frame


def never_null(spark: SparkSession, relation: Any, data: StructType, partitions: StructType) -> Any:
    """`relation`, one of files in a classic session, whose columns are nullable only where these schemas say so.

    `data` and `partitions` are the columns of the files and of their directories, unchanged but for that. Spark
    makes every column of a file nullable; the same relation is made with other words for it, so that columns and rows
    are pruned as before. It is not checked that the rows keep to the schemas.
    """
    session = spark._jsparkSession
    return relation.copy(
        relation.location(),
        session.parseDataType(partitions.json()) if len(partitions) else relation.partitionSchema(),
        session.parseDataType(data.json()),
        relation.bucketSpec(),
        relation.fileFormat(),
        relation.options(),
        relation.sparkSession(),
    )


def resolved_plan(frame: DataFrame) -> Any:
    """The logical plan of a frame of a classic session, with names resolved."""
    found = frame.__dict__.get(_PLAN)
    return frame._jdf.queryExecution().analyzed() if found is None else found


def listed_urls(frame: DataFrame) -> list[str]:
    """The URLs of the files that Spark listed for `frame`, one that `read_paths` gave, or of a relation of files."""
    if is_connect(frame.sparkSession):
        return list(frame.inputFiles())
    relation = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0)
    # Asked of the relation, it need not be optimized first; that of another kind of source cannot be asked.
    listing = relation.relation() if relation.nodeName() == "LogicalRelation" else frame._jdf
    # Every element is a call into the JVM, one text is one. Java's own `join` is not found for an array of texts.
    join = java_class(frame.sparkSession, "org.apache.hadoop.util.StringUtils").join
    return str(join("\0", listing.inputFiles())).split("\0")


def frame_of_writer(writer: Any) -> DataFrame:
    """The DataFrame that a `DataFrameWriter` writes; one of Connect only holds its plan."""
    if not is_connect(writer._spark):
        frame: DataFrame = writer._df
        return frame
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

    return ConnectDataFrame(writer._df, writer._spark)


_classes: dict[tuple[type, tuple[str, ...]], type] = {}


def _overriding(base: type, names: tuple[str, ...]) -> type:
    """A subclass of the mode's DataFrame, whose methods of these names are those of the object."""
    if (base, names) not in _classes:

        def method(name: str) -> Callable[..., Any]:
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                return self._slackwater_methods[name](*args, **kwargs)

            return functools.wraps(getattr(base, name))(call)

        _classes[base, names] = type("DataFrame", (base,), {n: method(n) for n in names} | {"__doc__": base.__doc__})
    return _classes[base, names]


def all_settings(spark: SparkSession) -> dict[str, str]:
    """What the session has set, by the settings' names; what is as Spark has it by default may be missing."""
    if is_connect(spark):
        return dict(spark.conf.getAll)
    # One call into the JVM for all of them, where PySpark makes some for each. No setting's name holds an arrow.
    text = str(spark._jsparkSession.conf().getAll().mkString("\0"))
    pairs = (line.partition(" -> ") for line in text.split("\0") if line)
    return {key: value for key, _, value in pairs}


def hadoop_setting(spark: SparkSession, key: str) -> str | None:
    """What Hadoop's own configuration says of `key`; of a Connect server only its Spark settings are known."""
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
    """Whether Spark has a Hadoop file system for `scheme`; a Connect server is asked to look at `root`."""
    try:
        if is_connect(spark):
            spark.read.format("binaryFile").load(root).schema  # noqa: B018  (it is analysed by that)
        else:
            configuration = spark._jsc.hadoopConfiguration()
            file_system = java_class(spark, "org.apache.hadoop.fs.FileSystem")
            file_system.getFileSystemClass(scheme, configuration)
    except Exception as error:  # noqa: BLE001  (whatever else is wrong there is told by who reads)
        return _NO_FILE_SYSTEM.search(str(error)) is None
    return True


def is_missing_path(error: AnalysisException) -> bool:
    """Whether Spark refused a plan because a path that it names is not there."""
    return condition_of(error) == "PATH_NOT_FOUND"


def condition_of(error: PySparkException) -> str | None:
    """The name of the error's condition, which older releases of PySpark call its class."""
    condition: str | None = (getattr(error, "getCondition", None) or error.getErrorClass)()
    return condition


def writer_failure(error: Exception) -> str | None:
    """Why Spark's file writer failed, None where it is not the writer that did."""
    if isinstance(error, PySparkException):
        return str(error).splitlines()[0] if condition_of(error) == _WRITE_FAILED else None
    # An exception of the JVM that PySpark has no class for; without py4j there is none.
    java: Any = getattr(error, "java_exception", None)
    if not hasattr(java, "getCondition") or java.getCondition() != _WRITE_FAILED:
        return None
    while (cause := java.getCause()) is not None:
        java = cause
    return str(java.toString())


def checkpoint_rows(frame: DataFrame, extra: Column) -> DataFrame:
    """The rows of `frame`, run once and kept, and the column `extra`; users' names for its columns stay valid.

    A classic session keeps aliases and attributes by itself; one of Connect is told them anew.
    """
    if not is_connect(frame.sparkSession):
        return frame.select("*", extra).localCheckpoint()
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
    from pyspark.sql.connect.plan import SubqueryAlias

    plan: Any = frame._plan
    if isinstance(plan, SubqueryAlias) and plan._child is not None:
        session: Any = frame.sparkSession
        inner = checkpoint_rows(ConnectDataFrame(plan._child, session), extra)
        return same_plan(frame, inner.alias(plan._alias))
    return same_plan(frame, frame.select("*", extra).localCheckpoint())


def alias_of(frame: DataFrame) -> str | None:
    """The name that `frame.alias(…)` gave, None where the frame has none."""
    if is_connect(frame.sparkSession):
        plan: Any = frame._plan
        return getattr(plan, "_alias", None) if type(plan).__name__ == "SubqueryAlias" else None
    analyzed = frame._jdf.queryExecution().analyzed()
    return str(analyzed.alias()) if analyzed.nodeName() == "SubqueryAlias" else None


def reads_the_same(frame: DataFrame) -> bool:
    """Whether `frame` certainly has the same rows whenever it is run: of files or given rows, and nothing of chance.

    Connect does not let look at a plan: there the answer is no.
    """
    if is_connect(frame.sparkSession):
        return False
    analyzed = frame._jdf.queryExecution().analyzed()
    leaves = analyzed.collectLeaves()
    names = {leaves.apply(at).nodeName() for at in range(leaves.size())}
    return (
        bool(analyzed.deterministic()) and names <= _STEADY_LEAVES and not plan_is_time_dependent(analysed_text(frame))
    )


def analysed_text(frame: DataFrame) -> str:
    """The analysed plan of `frame` as Spark writes it, all of it, whatever the session lets people see of plans."""
    with with_settings(frame.sparkSession, _WHOLE_PLANS):
        if not is_connect(frame.sparkSession):
            return _tree_text(frame._jdf.queryExecution().analyzed())
        client: Any = frame.sparkSession.client
        plan: Any = frame._plan
        told = client.explain_string(plan.to_proto(client), explain_mode="extended")
    found = _ANALYSED.search(told)
    if found is None:
        raise SlackwaterError("Spark explains a plan in an unexpected form: it has no section 'Analyzed Logical Plan'")
    return found[1]


def parsed_condition(frame: DataFrame, condition: Column) -> str | None:
    """`condition` as Spark writes it before it looks for names in the columns of `frame`: `('key = a)`.

    None if the plan has it in a form that is not known.
    """
    filtered = plain_method(frame, "filter")(condition)
    if is_connect(frame.sparkSession):
        client: Any = frame.sparkSession.client
        plan: Any = filtered._plan
        told = client.explain_string(plan.to_proto(client), explain_mode="extended")
    else:
        told = _tree_text(filtered._jdf.queryExecution().logical())
    found = _PARSED_FILTER.search(told)
    return None if found is None else found[1]


def _tree_text(plan: Any) -> str:
    from py4j.protocol import Py4JError

    try:
        return str(plan.treeString(False, False, _ALL_FIELDS, False, False))
    except Py4JError:
        # Older releases of Spark have one flag less.
        return str(plan.treeString(False, False, _ALL_FIELDS, False))


def release_checkpoint(frame: DataFrame) -> None:
    """Let go of the rows that `localCheckpoint` kept, as nothing reads them any more.

    Left to the garbage collector, Connect would ask the server from inside of whatever thread happens to collect, and
    can wait for itself there; a classic session cleans up in a thread of its own.
    """
    if not is_connect(frame.sparkSession):
        return
    plan: Any = frame._plan
    while type(plan).__name__ == "SubqueryAlias":
        plan = plan._child
    if type(plan).__name__ == "CachedRemoteRelation" and plan._relation_id is not None:
        plan.__del__()
        plan._relation_id = None

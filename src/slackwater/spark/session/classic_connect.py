"""The two kinds of Spark session, classic and Connect, and the operations with a different implementation in each.

All access to the JVM and to Connect plans is in this module, with two exceptions: the end of `condition_trees.py`, for
conditions, and `spark/hadoop`, for Hadoop's file systems.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
# Leaf nodes of plans with the same rows in each run.
_STEADY_LEAVES = frozenset({"LogicalRelation", "LocalRelation", "Range"})
_WRITE_FAILED = "TASK_WRITE_FAILED"
_PARSED_FILTER = re.compile(r"(?m)^'?Filter (.*)$")
# The first line lists the columns, and column names can hold any text.
_ANALYSED = re.compile(r"(?s)== Analyzed Logical Plan ==\n[^\n]*\n(.*?)\n== Optimized Logical Plan ==")
_ATTRIBUTE_ID = re.compile(r"#(\d+)L?\Z")
_ALL_FIELDS = 2**31 - 1
_WHOLE_PLANS = {
    "spark.sql.debug.maxToStringFields": str(_ALL_FIELDS),
    # Spark's own default: Spark appends a suffix to the text.
    "spark.sql.maxPlanStringLength": str(2**31 - 16),
    # A pattern without matches.
    "spark.sql.redaction.string.regex": "(?!)",
}
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


def python_worker_error(error: PySparkException) -> str:
    """Return the last error line of a Python worker in the exception, or else the exception's first line."""
    lines = str(error).strip().splitlines()
    return next((line for line in reversed(lines) if "Error: " in line), lines[0])


def default_parallelism(spark: SparkSession) -> int:
    """Return Spark's default number of tasks. Return a guess if a Connect server does not set it."""
    told = spark.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    if told is None and is_connect(spark):
        told = spark.conf.get("spark.default.parallelism", None) or str(_GUESSED_PARALLELISM)
    return max(1, int(told)) if told is not None else int(spark.sparkContext.defaultParallelism)


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame without rows. In classic PySpark, `createDataFrame` would run a job in the Python of executors."""
    if is_connect(spark):
        return spark.createDataFrame([], schema)
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    session = spark._jsparkSession
    found = session.createDataFrame(java_class(spark, "java.util.ArrayList")(), session.parseDataType(schema.json()))
    return ClassicDataFrame(found, spark)


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


def same_columns(original: DataFrame, replacement: DataFrame) -> DataFrame:
    """Return `replacement` with columns to which references made from `original` (`original.a`) resolve.

    Both have the same column names in the same order. A classic reference holds the attribute id of its column, so the
    new columns take over the ids of `original`. A Connect reference holds the id of a plan.
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
    aliases = []
    # Leave out attributes with the right id, because Spark assigns new ids to all if an attribute is aliased to itself.
    pairs = zip(attribute_ids(old), attribute_ids(new), strict=True)
    kept = {position for position, (before, after) in enumerate(pairs) if before == after}
    for position in range(old.size()):
        if position in kept:
            aliases.append(new.apply(position))
            continue
        attribute = old.apply(position)
        aliases.append(alias(new.apply(position), attribute.name(), attribute.exprId(), empty, none, empty))
    logical = "org.apache.spark.sql.catalyst.plans.logical"
    project = java_class(session, f"{logical}.Project")(scala_seq(session, aliases), new_plan)
    return frame_of_plan(session, project)


def frame_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the frame of a logical plan of the JVM, in a classic session."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    of_rows = static_member(spark, "org.apache.spark.sql.classic.Dataset", "ofRows")
    return ClassicDataFrame(of_rows(spark._jsparkSession, plan), spark)


def attribute_ids(attributes: Any) -> list[str]:
    """Return the ids of a classic plan's attributes, in a single call into the JVM."""
    text = str(attributes.mkString("\0"))
    return [match[1] for each in text.split("\0") if (match := _ATTRIBUTE_ID.search(each))]


def same_plan(original: DataFrame, replacement: DataFrame) -> DataFrame:
    """Return `replacement`, in Connect with the plan id of `original`. Classic sessions have no plan ids."""
    if is_connect(original.sparkSession):
        plan: Any = replacement._plan
        # Newer releases of PySpark have the attribute under another name, with a property for the old one.
        name = "_root_plan_id" if hasattr(plan, "_root_plan_id") else "_plan_id"
        setattr(plan, name, original._plan._plan_id)
    return replacement


def java_class(spark: SparkSession | SparkContext, name: str) -> Any:
    """Return a class of the JVM by its full name. With `_jvm.org.apache…` each dot would be a call into the JVM."""
    from py4j.java_gateway import JavaClass

    return JavaClass(name, spark._jvm._gateway_client)  # type: ignore[union-attr]


def class_object(spark: SparkSession, name: str) -> Any:
    """Return the JVM's `Class` of a class by its full name."""
    return java_class(spark, "java.lang.Class").forName(name)


def method_names(spark: SparkSession, name: str) -> set[str]:
    """Return the names of the public methods of a class, without methods generated by Scala."""
    return {str(each.getName()) for each in class_object(spark, name).getMethods() if "$" not in each.getName()}


def new_array(spark: SparkSession, name: str, length: int) -> Any:
    """Return a new array of the JVM for `length` elements of the class `name`."""
    return java_class(spark, "java.lang.reflect.Array").newInstance(class_object(spark, name), length)


def string_array(spark: SparkSession, texts: Sequence[str]) -> Any:
    """Return an array of the JVM with `texts`, at least one, of which none holds a NUL.

    The JVM splits one text, because each element would be a call into the JVM.
    """
    return java_class(spark, "java.util.regex.Pattern").compile("\0").split("\0".join(texts))


def scala_seq(spark: SparkSession, elements: Iterable[Any]) -> Any:
    """Return an immutable Scala sequence of objects of the JVM."""
    found = java_class(spark, "java.util.ArrayList")()
    for each in elements:
        found.add(each)
    return java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(found).toSeq()


def static_member(spark: SparkSession | SparkContext, name: str, member: str) -> Any:
    """Return a static method, or a constant static value, of the JVM's class `name`. The result is cached."""
    return _static_member(spark._jvm._gateway_client, name, member)  # type: ignore[union-attr]


@functools.lru_cache(maxsize=256)
def _static_member(client: Any, name: str, member: str) -> Any:
    from py4j.java_gateway import JavaClass

    return getattr(JavaClass(name, client), member)


def scala_object(spark: SparkSession, name: str) -> Any:
    """Return a Scala object by its full name."""
    return static_member(spark, f"{name}$", "MODULE$")


def with_methods(frame: DataFrame, methods: Mapping[str, Callable[..., Any]]) -> DataFrame:
    """Return a copy of `frame` with these `methods` in place of its own, by name."""
    if is_connect(frame.sparkSession):
        from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

        connect: DataFrame = _overriding(ConnectDataFrame, tuple(methods))(frame._plan, frame.sparkSession)
        connect._slackwater_methods = methods  # type: ignore[attr-defined]
        if (schema := frame.__dict__.get("_cached_schema")) is not None:
            # Copy the cached schema to save a request to the server.
            connect._cached_schema = schema  # type: ignore[attr-defined]
        return connect
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    classic: Any = _overriding(ClassicDataFrame, tuple(methods))(frame._jdf, frame.sparkSession)
    classic._slackwater_methods = methods
    # Copy the cached values to save calls into the JVM.
    classic.__dict__.update({key: frame.__dict__[key] for key in ("schema", _PLAN) if key in frame.__dict__})
    return classic  # type: ignore[no-any-return]


def with_known_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """Cache `schema` as the schema of `frame` in a Connect session, to save a request to the server. Return `frame`.

    The plan stays unchanged. PySpark passes the schema on to frames with the same columns, such as those of `filter`
    and `limit`. The server provides the schema of other derived frames.
    """
    if is_connect(frame.sparkSession):
        # Copy the schema, because callers can add fields to a schema.
        frame._cached_schema = type(schema)(list(schema.fields))  # type: ignore[attr-defined]
    return frame


def frame_of_later_plan(spark: SparkSession, schema: StructType, make: Callable[[], DataFrame]) -> DataFrame:
    """Return a frame of a Connect session with the rows of `make()`, called when the plan is first sent to the server.

    `schema` is the schema of the result of `make`.
    """
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class LaterPlan(LogicalPlan):
        """The plan of a frame that is made later."""

        @functools.cached_property
        def _made(self) -> Any:
            return make()._plan

        def plan(self, session: Any) -> Any:
            relation = self._made.plan(session)
            # References to columns of the frame hold the id of this plan.
            relation.common.plan_id = self._create_proto_relation().common.plan_id
            return relation

    session: Any = spark
    return with_known_schema(ConnectDataFrame(LaterPlan(None), session), schema)


def plain_method(frame: DataFrame, name: str) -> Callable[..., DataFrame]:
    """Return Spark's own method `name` of `frame`."""
    from pyspark.sql import DataFrame as AnyDataFrame

    base = next(c for c in type(frame).__mro__ if c.__module__.startswith("pyspark.") and c is not AnyDataFrame)
    return functools.partial(getattr(base, name), frame)


def read_paths(spark: SparkSession, reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Return `reader.load(paths)`, analysed: a missing path raises here."""
    frame: DataFrame
    if is_connect(spark):
        frame = reader.load(list(paths))
        _ = frame.schema
    elif len(paths) <= _PATHS_ONE_BY_ONE:
        frame = reader.load(list(paths))
    else:
        frame = reader._df(reader._jreader.load(string_array(spark, paths)))
    return frame


def relation_of(frame: DataFrame) -> Any:
    """Return the file relation of `frame`, a result of `read_paths` in a classic session."""
    return frame._jdf.queryExecution().analyzed().collectLeaves().apply(0).relation()


def frame_of_relation(spark: SparkSession, relation: Any, schema: StructType | None = None) -> DataFrame:
    """Return a query for all columns of a file relation in a classic session, with attributes of its own.

    The query protects the files: Spark would accept an INSERT into a view of a bare relation and overwrite the files.
    `schema` is the frame's schema, if known. It saves a call into the JVM.
    """
    plans = "org.apache.spark.sql"
    plan = scala_object(spark, f"{plans}.execution.datasources.LogicalRelation").apply(relation, False)
    project = java_class(spark, f"{plans}.catalyst.plans.logical.Project")(plan.output(), plan)
    frame = frame_of_plan(spark, project)
    frame.__dict__[_PLAN] = project
    if schema is not None:
        # Copy the schema, because callers can add fields to a schema.
        frame.__dict__["schema"] = type(schema)(list(schema.fields))
    return frame


def never_null(spark: SparkSession, relation: Any, data: StructType, partitions: StructType) -> Any:
    """Return `relation`, a file relation of a classic session, with the nullability of these schemas.

    `data` and `partitions` are the columns of the files and of their directories. Only their nullability differs from
    the relation's. Spark makes each column of a file nullable. The result is the same relation with other schemas, so
    column and partition pruning still work. Rows are not validated against the schemas.
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
    """Return the logical plan of a frame of a classic session, with names resolved."""
    found = frame.__dict__.get(_PLAN)
    return frame._jdf.queryExecution().analyzed() if found is None else found


def listed_urls(frame: DataFrame) -> list[str]:
    """Return the URLs of the files that Spark listed for `frame`, made by `read_paths` or of a file relation."""
    if is_connect(frame.sparkSession):
        return list(frame.inputFiles())
    relation = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0)
    # The relation lists its files without an optimized plan. Other kinds of source have no such list.
    listing = relation.relation() if relation.nodeName() == "LogicalRelation" else frame._jdf
    # Join in the JVM, because each element is a call into the JVM. py4j does not find Java's own `join` for a String
    # array.
    join = java_class(frame.sparkSession, "org.apache.hadoop.util.StringUtils").join
    return str(join("\0", listing.inputFiles())).split("\0")


def frame_of_writer(writer: Any) -> DataFrame:
    """Return the DataFrame of a `DataFrameWriter`. A writer of Connect has only the plan."""
    if not is_connect(writer._spark):
        frame: DataFrame = writer._df
        return frame
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

    return ConnectDataFrame(writer._df, writer._spark)


_classes: dict[tuple[type, tuple[str, ...]], type] = {}


def _overriding(base: type, names: tuple[str, ...]) -> type:
    """Return a subclass of the mode's DataFrame. Its methods of these names call functions of the instance."""
    if (base, names) not in _classes:

        def method(name: str) -> Callable[..., Any]:
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                return self._slackwater_methods[name](*args, **kwargs)

            return functools.wraps(getattr(base, name))(call)

        _classes[base, names] = type("DataFrame", (base,), {n: method(n) for n in names} | {"__doc__": base.__doc__})
    return _classes[base, names]


def all_settings(spark: SparkSession) -> dict[str, str]:
    """Return the settings of the session by name. Settings with Spark's default value can be missing."""
    if is_connect(spark):
        return dict(spark.conf.getAll)
    # Use one call into the JVM, because PySpark makes several per setting. No setting's name holds an arrow.
    text = str(spark._jsparkSession.conf().getAll().mkString("\0"))
    pairs = (line.partition(" -> ") for line in text.split("\0") if line)
    return {key: value for key, _, value in pairs}


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


def is_missing_path(error: AnalysisException) -> bool:
    """Return whether Spark rejected a plan because of a missing path."""
    return condition_of(error) == "PATH_NOT_FOUND"


def condition_of(error: PySparkException) -> str | None:
    """Return the name of the error's condition, the "error class" of older releases of PySpark."""
    condition: str | None = (getattr(error, "getCondition", None) or error.getErrorClass)()
    return condition


def writer_failure(error: Exception) -> str | None:
    """Return the reason for a failure of Spark's file writer, None for any other error."""
    if isinstance(error, PySparkException):
        return str(error).splitlines()[0] if condition_of(error) == _WRITE_FAILED else None
    # An exception of the JVM without a class in PySpark. Without py4j there are none.
    java: Any = getattr(error, "java_exception", None)
    if not hasattr(java, "getCondition") or java.getCondition() != _WRITE_FAILED:
        return None
    while (cause := java.getCause()) is not None:
        java = cause
    return str(java.toString())


def checkpoint_rows(frame: DataFrame, extra: Column) -> DataFrame:
    """Return a local checkpoint of `frame` with the column `extra`. References to its columns stay valid.

    A classic session preserves aliases and attributes itself. In Connect, the plan gets them again.
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
    """Return the name set by `frame.alias(…)`, None if the frame has no alias."""
    if is_connect(frame.sparkSession):
        plan: Any = frame._plan
        return getattr(plan, "_alias", None) if type(plan).__name__ == "SubqueryAlias" else None
    analyzed = frame._jdf.queryExecution().analyzed()
    return str(analyzed.alias()) if analyzed.nodeName() == "SubqueryAlias" else None


def reads_the_same(frame: DataFrame) -> bool:
    """Return whether `frame` certainly has the same rows in each run.

    True if the frame reads only files or local rows and is deterministic. Always False for Connect, because Connect
    does not expose plans.
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
    """Return the complete text of the analysed plan of `frame`, regardless of the session's settings for plan texts."""
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
    """Return Spark's text of `condition` before the resolution of names in the columns of `frame`: `('key = a)`.

    None if the plan has the condition in an unknown form.
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
        # Older releases of Spark have one flag fewer.
        return str(plan.treeString(False, False, _ALL_FIELDS, False))


def release_checkpoint(frame: DataFrame) -> None:
    """Release the rows of a `localCheckpoint` without further readers.

    In Connect, the garbage collector would send this request from an arbitrary thread, with the risk of a deadlock. A
    classic session cleans up in its own thread.
    """
    if not is_connect(frame.sparkSession):
        return
    plan: Any = frame._plan
    while type(plan).__name__ == "SubqueryAlias":
        plan = plan._child
    if type(plan).__name__ == "CachedRemoteRelation" and plan._relation_id is not None:
        plan.__del__()
        plan._relation_id = None

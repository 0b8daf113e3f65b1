"""Our errors are also of the classes that people catch: PySpark's, and delta-spark's where that is installed.

The tree gets the bases when any code imports `pyspark.errors`, and never without: then no code can name them.
An `except` clause goes by the real bases of a class, so a virtual subclass would not be caught.
"""

from __future__ import annotations

from types import ModuleType

from slackwater import errors
from slackwater.error_classes import StatementPlace
from slackwater.spark.import_hooks import on_import

# delta-spark refuses with any of the three, by what it was that it refused.
_REFUSALS = ("AnalysisException", "IllegalArgumentException", "UnsupportedOperationException")
# Each class with those of pyspark.errors that delta-spark raises in its place; what is below it is of these too.
_OF_PYSPARK: dict[type[errors.SlackwaterError], tuple[str, ...]] = {
    errors.SlackwaterError: ("PySparkException",),
    errors.TableNotFound: ("AnalysisException",),
    errors.VersionNotFound: ("AnalysisException", "IllegalArgumentException"),
    errors.TimestampOutOfRange: ("AnalysisException",),
    errors.ChangeFeedNotEnabled: ("AnalysisException",),
    errors.UnsupportedFeature: _REFUSALS,
    errors.InvalidArgument: _REFUSALS,
    errors.SqlSyntaxError: ("ParseException",),
    errors.OperationNotAllowed: _REFUSALS,
    errors.InvariantViolationException: ("AnalysisException", "SparkRuntimeException"),
    errors.ValueDoesNotFit: ("ArithmeticException", "NumberFormatException", "DateTimeException"),
}
_OF_DELTA_SPARK = (
    errors.DeltaConcurrentModificationException,
    errors.ConcurrentAppendException,
    errors.ConcurrentDeleteDeleteException,
    errors.ConcurrentDeleteReadException,
    errors.ConcurrentTransactionException,
    errors.ConcurrentWriteException,
    errors.MetadataChangedException,
    errors.ProtocolChangedException,
)


def watch() -> None:
    """Give the errors their bases as soon as the modules of these are imported."""
    on_import("pyspark.errors", _add_classes_of_pyspark)
    on_import("pyspark.errors", _tell_places)
    on_import("delta.exceptions", _add_classes_of_delta_spark)


def _add_classes_of_pyspark(module: ModuleType) -> None:
    for ours, names in _OF_PYSPARK.items():
        for name in names:
            _add_base(ours, getattr(module, name))


def _tell_places(module: ModuleType) -> None:
    """Places in statements are PySpark's contexts of a query, of the kind that it has for SQL."""
    module.QueryContext.register(StatementPlace)
    kind = module.QueryContextType.SQL
    setattr(StatementPlace, "contextType", lambda _: kind)  # noqa: B010  (the kernel cannot name the type)


def _add_classes_of_delta_spark(module: ModuleType) -> None:
    """Where `delta` is ours, its classes are these themselves."""
    for ours in _OF_DELTA_SPARK:
        theirs = getattr(module, ours.__name__, None)
        if isinstance(theirs, type):
            _add_base(ours, theirs)


def _add_base(ours: type[errors.SlackwaterError], base: type) -> None:
    if not issubclass(ours, base):
        # Last, so that what our classes say of themselves is said by our methods.
        setattr(ours, "__bases__", (*ours.__bases__, base))  # noqa: B010  (for type checkers it is read-only)

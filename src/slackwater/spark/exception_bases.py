"""Additional base classes of our errors: PySpark's errors, and delta-spark's if installed.

The bases are added when any code imports `pyspark.errors`. Without this import no code can name these classes. An
`except` clause checks the real bases of a class, so a virtual subclass would not be caught.
"""

from __future__ import annotations

from types import ModuleType

from slackwater import errors
from slackwater.error_classes import StatementPlace
from slackwater.spark.import_hooks import on_import

# delta-spark raises any of the three, depending on the rejected operation.
_REFUSALS = ("AnalysisException", "IllegalArgumentException", "UnsupportedOperationException")
# Classes of pyspark.errors raised by delta-spark for the same error. Subclasses inherit these bases.
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
    """Add the bases to the errors on import of the bases' modules."""
    on_import("pyspark.errors", _add_classes_of_pyspark)
    on_import("pyspark.errors", _tell_places)
    on_import("delta.exceptions", _add_classes_of_delta_spark)


def _add_classes_of_pyspark(module: ModuleType) -> None:
    for ours, names in _OF_PYSPARK.items():
        for name in names:
            _add_base(ours, getattr(module, name))


def _tell_places(module: ModuleType) -> None:
    """Register statement positions as PySpark's query contexts, with PySpark's context type for SQL."""
    module.QueryContext.register(StatementPlace)
    kind = module.QueryContextType.SQL
    setattr(StatementPlace, "contextType", lambda _: kind)  # noqa: B010  (the kernel cannot name the type)


def _add_classes_of_delta_spark(module: ModuleType) -> None:
    """Add delta-spark's classes as bases. In our own `delta` shim, the classes are identical."""
    for ours in _OF_DELTA_SPARK:
        theirs = getattr(module, ours.__name__, None)
        if isinstance(theirs, type):
            _add_base(ours, theirs)


def _add_base(ours: type[errors.SlackwaterError], base: type) -> None:
    if not issubclass(ours, base):
        # Last, so that our own methods take precedence.
        setattr(ours, "__bases__", (*ours.__bases__, base))  # noqa: B010  (for type checkers it is read-only)

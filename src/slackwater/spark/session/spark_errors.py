"""Texts and classes of Spark's errors, for the errors of this package that replace them."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import AnalysisException, PySparkException

from slackwater.protocol.schema_changes.column_names import OWN_PREFIX

_CLASS, _STATE = re.compile(r"\A\[[A-Z][A-Z0-9_.]*\] "), re.compile(r" SQLSTATE: \w{5}.*\Z")
_PART = re.compile(r"`(?:[^`]|``)*`")
_NAME = re.compile(rf"{_PART.pattern}(?:\.{_PART.pattern})*")
_NAMES = f"{_NAME.pattern}(?:, {_NAME.pattern})*"
_SUGGESTED = re.compile(rf"( Did you mean one of the following\? \[)({_NAMES})(\]\.)")
_AMBIGUOUS = re.compile(rf"(is ambiguous, could be: \[)({_NAMES})(\])")
_WRITE_FAILED = "TASK_WRITE_FAILED"


def spark_error_text(error: PySparkException) -> str:
    """Return the first line of Spark's error, without suggestions of internal names.

    The error class and SQLSTATE are removed, because the new error has them as attributes.
    """
    line = without_our_names(str(error).strip().splitlines()[0])
    return _STATE.sub("", _CLASS.sub("", line)).rstrip(".")


def class_of(error: PySparkException) -> dict[str, Any]:
    """Return the error class and the SQLSTATE of Spark's error, for the error that replaces it."""
    return {"error_class": condition_of(error), "sqlstate": error.getSqlState()}


def python_worker_error(error: PySparkException) -> str:
    """Return the last error line of a Python worker in the exception, or else the exception's first line."""
    lines = str(error).strip().splitlines()
    return next((line for line in reversed(lines) if "Error: " in line), lines[0])


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


def without_our_names(text: str) -> str:
    """Return Spark's message about an unknown or ambiguous name, without internal names of this package."""
    return _AMBIGUOUS.sub(_of_users, _SUGGESTED.sub(_of_users, text))


def _of_users(suggested: re.Match[str]) -> str:
    given = [_PART.findall(name) for name in _NAME.findall(suggested[2])]
    kept = [[part for part in parts if not part.startswith(f"`{OWN_PREFIX}")] for parts in given]
    if len(given) == 1 and len(given[0]) > 2 and kept != given:
        # Spark joins names with the same qualifier by dots, like the parts of one name.
        names = kept[0]
    else:
        # Leave out internal columns. The qualifier of a user's column can be the internal name of a frame.
        names = [".".join(left) for parts, left in zip(given, kept, strict=True) if left[-1:] == parts[-1:]]
    return f"{suggested[1]}{', '.join(names)}{suggested[3]}" if names else ""

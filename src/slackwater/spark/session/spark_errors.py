"""Texts and classes of Spark's errors, for the errors of this package that replace them."""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import PySparkException

from slackwater.spark.session.classic_connect import condition_of
from slackwater.spark.session.identifiers import without_our_names

_CLASS, _STATE = re.compile(r"\A\[[A-Z][A-Z0-9_.]*\] "), re.compile(r" SQLSTATE: \w{5}.*\Z")


def spark_error_text(error: PySparkException) -> str:
    """Return the first line of Spark's error, without suggestions of internal names.

    The error class and SQLSTATE are removed, because the new error has them as attributes.
    """
    line = without_our_names(str(error).strip().splitlines()[0])
    return _STATE.sub("", _CLASS.sub("", line)).rstrip(".")


def class_of(error: PySparkException) -> dict[str, Any]:
    """Return the error class and the SQLSTATE of Spark's error, for the error that replaces it."""
    return {"error_class": condition_of(error), "sqlstate": error.getSqlState()}

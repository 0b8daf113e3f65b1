"""Errors have delta-spark's error classes, keep them between processes, and are documented as they are."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater import errors
from slackwater.error_classes import SQLSTATES, StatementPlace
from tests.error_names import named_in_sources

GUIDE = (Path(__file__).parents[1] / "docs" / "errors.md").read_text(encoding="utf-8")


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.SlackwaterError)]


def test_every_error_class_that_is_raised_has_an_sqlstate_and_every_one_in_the_list_is_raised() -> None:
    assert sorted(named_in_sources()) == sorted(SQLSTATES)
    assert [name for name, state in SQLSTATES.items() if not re.fullmatch("[0-9A-Z]{5}", state)] == []
    assert list(SQLSTATES) == sorted(SQLSTATES)


def test_an_error_tells_its_error_class_as_pysparks_do() -> None:
    error = errors.TableNotFound("/t is not there")
    assert (error.error_class, error.sqlstate) == ("DELTA_TABLE_NOT_FOUND", "42P01")
    assert error.getCondition() == error.getErrorClass() == "DELTA_TABLE_NOT_FOUND"
    assert error.getSqlState() == "42P01"
    assert str(error) == "/t is not there"
    assert error.getMessage() == "[DELTA_TABLE_NOT_FOUND] /t is not there SQLSTATE: 42P01"
    assert error.getMessageParameters() == {}
    assert error.getQueryContext() == []
    assert error.getBreakingChangeInfo() is None  # type: ignore[func-returns-value]


def test_an_error_without_an_error_class_says_none_and_its_message_alone() -> None:
    error = errors.CommitOwnerBusy("come back later")
    assert (error.getCondition(), error.getSqlState(), error.getMessage()) == (None, None, "come back later")


def test_who_raises_an_error_may_give_it_another_error_class() -> None:
    error = errors.InvalidArgument("no", error_class="DELTA_ILLEGAL_OPTION")
    assert (error.error_class, error.sqlstate) == ("DELTA_ILLEGAL_OPTION", "42616")
    of_spark = errors.InvalidArgument("no", error_class="UNRESOLVED_COLUMN.WITH_SUGGESTION", sqlstate="42703")
    assert (of_spark.getCondition(), of_spark.getSqlState()) == ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703")
    assert errors.InvalidArgument("no").error_class is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_after_a_pickle_and_a_copy(kind: type[errors.SlackwaterError]) -> None:
    place = StatementPlace("a b", 2, 2)
    error = kind("text", 2, error_class="DELTA_X", sqlstate="0A000", place=place)
    for again in (_sent(error), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert (again.args, again.error_class, again.sqlstate) == (("text", 2), "DELTA_X", "0A000")
        assert again.getQueryContext() == [place]
    assert str(_sent(kind("text"))) == "text"


def _sent(error: errors.SlackwaterError) -> errors.SlackwaterError:
    """The error as another process gets it."""
    found: errors.SlackwaterError = pickle.loads(pickle.dumps(error))  # noqa: S301  (it was made here)
    return found


def test_errors_are_of_pysparks_classes_from_when_pyspark_is_imported_and_not_before() -> None:
    """A pickle that was made without PySpark is read with it."""
    pytest.importorskip("pyspark")
    program = """
import pickle, sys
from slackwater import errors
assert "pyspark" not in sys.modules
before = pickle.dumps(errors.VersionNotFound("gone", error_class="DELTA_VERSION_NOT_FOUND"))
raised = errors.TableNotFound("nothing")
assert not hasattr(raised, "_log_exception")
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException, PySparkException
for error in (raised, pickle.loads(before), errors.InvalidArgument("no")):
    try:
        raise error
    except AnalysisException as caught:
        assert caught is error and str(caught) in ("nothing", "gone", "no")
for kind, of in (
    (errors.InvalidArgument, IllegalArgumentException),
    (errors.InvalidArgument, ValueError),
    (errors.SqlSyntaxError, ParseException),
    (errors.CommitUnknown, PySparkException),
    (errors.ConcurrentAppendException, PySparkException),
):
    assert issubclass(kind, of), (kind, of)
assert not issubclass(errors.CommitUnknown, AnalysisException)
# What PySpark's own keep of a message is not made, nor sent to other processes.
assert vars(errors.CommitUnknown("no")) == vars(errors.InvalidArgument()) == {}
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "done\n"


def _rows(heading: str) -> list[list[str]]:
    section = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    assert len(found) > 5, f"docs/errors.md has no table {heading!r}"
    return found[1:]


def test_the_guide_lists_every_error_class_with_its_sqlstate_and_who_has_it() -> None:
    expected = [[f"`{n}`", SQLSTATES[n], ", ".join(sorted(k))] for n, k in sorted(named_in_sources().items())]
    assert _rows("All error classes") == expected, "\n".join(f"| {' | '.join(row)} |" for row in expected)


def test_the_guide_says_what_to_do_for_error_classes_that_there_are() -> None:
    named = [name for row in _rows("What to write instead") for name in re.findall("`([A-Z0-9_.]{12,})`", row[0])]
    assert len(named) > 25
    assert [name for name in named if name not in SQLSTATES] == []


def test_the_guide_says_of_each_error_and_warning_of_the_tree_what_to_do() -> None:
    told = [re.findall("`([A-Za-z]+)`", row[0])[0] for row in _rows("Each error: what happened, what to do")]
    warnings = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Warning)]
    assert told == [kind.__name__ for kind in (*_tree(errors.SlackwaterError), *warnings)]


RETRYABLE = {
    "CommitOwnerUnavailable",
    "StorageError",
    "DeltaConcurrentModificationException",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
    "ConcurrentWriteException",
    "TimestampConflict",
    "LockTimeout",
    "DeadlockDetected",
    "MetadataChangedException",
    "ProtocolChangedException",
    "CommitFailed",
    "CommitOwnerBusy",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_says_whether_the_same_call_may_be_repeated(kind: type[errors.SlackwaterError]) -> None:
    assert kind("no").retryable is (kind.__name__ in RETRYABLE)


def test_the_guide_says_which_errors_may_be_repeated() -> None:
    told = {row[1]: [] for row in _rows("Each error: what happened, what to do")}  # type: dict[str, list[str]]
    for row in _rows("Each error: what happened, what to do"):
        told[row[1]].append(re.findall("`([A-Za-z]+)`", row[0])[0])
    assert set(told) == {"yes", "no", "–"}
    assert set(told["yes"]) == RETRYABLE


def _tree(kind: type[errors.SlackwaterError]) -> list[type[errors.SlackwaterError]]:
    """A class and those below it, in the order of the sources."""
    below = [child for child in KINDS if kind in child.__bases__]
    return [kind, *(each for child in below for each in _tree(child))]

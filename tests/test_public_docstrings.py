"""What users call says what it does, takes and raises, in words that begin with a verb or a noun."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import slackwater
from tests.test_prose import VAGUE

# These two have delta-spark's own parameters, and ours beside them.
OF_BOTH_CASINGS = {"convertToDelta", "vacuum"}
# These raise nothing, or only TypeError and ValueError for what is no argument. They may only become fewer.
SAY_NOTHING_OF_ERRORS = {
    "AddFile",
    "AddFile.to_json",
    "DeltaMergeBuilder.whenMatchedDelete",
    "DeltaMergeBuilder.whenMatchedUpdate",
    "DeltaMergeBuilder.whenMatchedUpdateAll",
    "DeltaMergeBuilder.whenNotMatchedBySourceDelete",
    "DeltaMergeBuilder.whenNotMatchedBySourceUpdate",
    "DeltaMergeBuilder.whenNotMatchedInsert",
    "DeltaMergeBuilder.whenNotMatchedInsertAll",
    "DeltaMergeBuilder.withSchemaEvolution",
    "DeltaTable.alias",
    "DeltaTable.optimize",
    "DeltaTable.reorg",
    "IdentityGenerator",
    "RemoveFile",
    "RemoveFile.to_json",
    "TransactionTable.alias",
}


def test_every_parameter_of_what_users_call_is_named_in_its_docstring() -> None:
    """One that says "as `other`" may leave to that what it says of parameters of the same name."""
    lacking = {
        name: missing
        for name, called in _called_by_users().items()
        if (missing := _parameters(called) - _described(name, called))
    }
    assert lacking == {}


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    begun = {name: (inspect.getdoc(called) or "").split(maxsplit=1)[0] for name, called in _called_by_users().items()}
    assert {name: word for name, word in begun.items() if word.strip(",:").lower() in VAGUE} == {}


def test_docstrings_point_at_nothing_that_users_cannot_find() -> None:
    classes = {name.partition(".")[0] for name in _called_by_users()}
    lost = {
        (name, pointer)
        for name, called in _called_by_users().items()
        for pointer in re.findall(r"\b[Aa]s(?: in)? `([A-Z]\w*)\.\w+`", inspect.getdoc(called) or "")
        if pointer not in classes
    }
    assert lost == set()


def test_what_users_call_says_what_it_raises() -> None:
    told = re.compile(r"\b[Rr]aises?\b")
    silent = {name for name, called in _called_by_users().items() if not told.search(called.__doc__ or "")}
    assert silent == SAY_NOTHING_OF_ERRORS


def test_no_signature_mixes_casings() -> None:
    mixed = set()
    for called in _called_by_users().values():
        names = _parameters(called)
        if any("_" in name for name in names) and any(name != name.lower() for name in names):
            mixed.add(called.__name__)
    assert mixed == OF_BOTH_CASINGS


@cache
def _called_by_users() -> dict[str, Callable[..., Any]]:
    """Functions, methods by the first public class that has them, and classes that users make values of, by name."""
    from slackwater.spark.history.system_time import SystemTimeRelation
    from slackwater.spark.lake.time_slice import TimeSlice, TimeSliceTable
    from slackwater.spark.lake.transaction import LakeTransaction, TransactionTable

    named = [getattr(slackwater, name) for name in slackwater.__all__]
    made: tuple[Callable[..., Any], ...] = (
        slackwater.AddFile,
        slackwater.IdentityGenerator,
        slackwater.RemoveFile,
        slackwater.Transaction,
    )
    functions: list[Callable[..., Any]] = [each for each in named if inspect.isfunction(each)]
    found = {each.__name__: each for each in (*functions, *made)}
    given = (LakeTransaction, SystemTimeRelation, TimeSlice, TimeSliceTable, TransactionTable)
    for kind in (*filter(inspect.isclass, named), *given):
        bases = [base for base in kind.__bases__ if base in named]
        for name in dir(kind):
            here = inspect.getattr_static(kind, name)
            inherited = any(inspect.getattr_static(base, name, None) is here for base in bases)
            if not name.startswith("_") and not inherited and callable(getattr(kind, name)):
                found[f"{kind.__name__}.{name}"] = getattr(kind, name)
    return found


def _parameters(called: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(called).parameters) - {"self", "cls"}


def _described(name: str, called: Callable[..., Any]) -> set[str]:
    """The parameters that its docstring names, and those of the method that its first sentence points at."""
    text = inspect.getdoc(called) or ""
    found = {parameter for parameter in _parameters(called) if f"`{parameter}`" in text}
    pointer = re.search(r"\bas `(\w+)`", text.split(". ")[0])
    other = None if pointer is None else _called_by_users().get(f"{name.partition('.')[0]}.{pointer[1]}")
    return found if other is None or other == called else found | _described(name, other)

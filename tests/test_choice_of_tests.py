"""Which tests a run is for, by its options and the tests' marks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems, pytest_ignore_collect
from tests.examples import examples

_SPARK = {
    "plain": {},
    "many": {},
    "of the mode": {"modes"},
    "shared": {"shared"},
    "classic": {"classic"},
    "long": {"long"},
}
_MARKS: dict[str, set[str]] = {name: {"spark", *marks} for name, marks in _SPARK.items()} | {"kernel": set()}
_VARIATIONS = {"many": 21, "of the mode": 2}
_ALL = ["plain", *(f"many[{n}]" for n in range(21)), "of the mode[0]", "of the mode[1]", "shared"]
_SOME = ["plain", "many[0]", "many[20]", "of the mode[0]", "of the mode[1]"]


class _Config:
    """What a run was told."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.hook = SimpleNamespace(pytest_deselected=lambda items: None)

    def getoption(self, name: str) -> Any:
        return name in self._options or ("spark" if name == "markexpr" and "-m spark" in self._options else False)


def _items() -> list[Any]:
    names = [
        name if count is None else f"{name}[{n}]"
        for name, count in ((name, _VARIATIONS.get(name)) for name in _MARKS)
        for n in range(count or 1)
    ]
    return [_item(name, _MARKS[name.partition("[")[0]]) for name in names]


def _item(name: str, marks: set[str]) -> Any:
    # Each is of a file of its own, but for those whose name says one.
    nodeid = name if "::" in name else f"{name.partition('[')[0]}.py::{name}"
    return SimpleNamespace(nodeid=nodeid, iter_markers=lambda: [SimpleNamespace(name=mark) for mark in marks])


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ([], [*_SOME, "shared", "classic", "kernel"]),
        (["--long"], [*_ALL, "classic", "long", "kernel"]),
        (["--connect"], [*_SOME, "kernel"]),
        (["--connect", "--long"], [*_ALL, "long", "kernel"]),
        (["--all"], [*_ALL, "classic", "kernel"]),
        (["--connect", "--all"], [*_ALL, "kernel"]),
    ],
)
def test_options_choose_by_marks(options: list[str], chosen: list[str]) -> None:
    items, config = _items(), _Config(*options)
    pytest_collection_modifyitems(config, items)  # type: ignore[arg-type]
    assert [item.nodeid.partition("::")[2] for item in items] == chosen


def test_through_connect_every_tenth_test_of_a_file_stands_for_the_others() -> None:
    def chosen(*options: str) -> list[str]:
        marks = {"b.py::00": {"spark", "classic"}, "b.py::03": {"spark", "modes"}}
        names = [f"{file}.py::{n:02}" for file in "ab" for n in range(13)]
        items = [_item(name, marks.get(name, {"spark"})) for name in names]
        pytest_collection_modifyitems(_Config(*options), items)  # type: ignore[arg-type]
        return [item.nodeid for item in items]

    assert chosen("--connect") == ["a.py::00", "a.py::10", "b.py::01", "b.py::03", "b.py::12"]
    assert len(chosen("--connect", "--all")) == 25
    assert len(chosen()) == 26


def test_a_test_that_needs_spark_and_does_not_say_so_is_refused() -> None:
    item = SimpleNamespace(
        nodeid="one", fixturenames=["spark"], iter_markers=list, get_closest_marker=lambda name: None
    )
    with pytest.raises(pytest.UsageError, match=r"^one needs Spark"):
        pytest_collection_modifyitems(_Config(), [item])  # type: ignore[arg-type,list-item]


def test_files_without_spark_tests_are_not_read_for_a_run_of_spark_tests(tmp_path: Path) -> None:
    texts = {"test_spark.py": "pytestmark = pytest.mark.spark", "test_kernel.py": "", "conftest.py": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    def unread(*options: str) -> list[str]:
        return [name for name in texts if pytest_ignore_collect(tmp_path / name, _Config(*options))]  # type: ignore[arg-type]

    assert unread("-m spark") == ["test_kernel.py"]
    assert unread() == []


def test_properties_are_tried_with_a_fifth_of_the_examples_in_a_short_run(request: pytest.FixtureRequest) -> None:
    assert [examples(number) for number in (1, 30, 100)] == (
        [1, 30, 100] if request.config.getoption("--long") else [1, 6, 20]
    )

"""Pages made of other texts: parameters as tables, the changelog, the methods of DeltaTable by task."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.parameters import with_parameters
from tools.site import changelog

import slackwater
from tests.docs.test_pages import anchors

ROOT = Path(__file__).parents[2]


def test_sentences_that_begin_with_a_parameter_become_a_section() -> None:
    docstring = (
        "Add columns to the struct `parent`.\n\n"
        "`cols`: a StructType or a list. The columns are adjacent. `after` is the name of a column; with `first`\n"
        "it is ignored. Raises InvalidArgument for a name in use.\n\n"
        ">>> table.addColumns(cols)"
    )
    assert with_parameters(docstring, ["cols", "parent", "after"]) == (
        "Add columns to the struct `parent`.\n\n"
        "The columns are adjacent. Raises InvalidArgument for a name in use.\n\n"
        "Args:\n"
        "    cols: A StructType or a list.\n"
        "    parent: Add columns to the struct `parent`.\n"
        "    after: The name of a column; with `first` it is ignored.\n\n"
        ">>> table.addColumns(cols)"
    )


@pytest.mark.parametrize(
    "docstring",
    ["Return the version.", "Set it.\n\nArgs:\n    name: A name.", "Return `other`, which is no parameter."],
)
def test_a_docstring_without_described_parameters_stays(docstring: str) -> None:
    assert with_parameters(docstring, ["name"]) == docstring


def test_several_parameters_share_a_sentence() -> None:
    found = with_parameters("Clone it.\n\n`target`, `replace` as in `clone`. Raises as `clone`.", ["target", "replace"])
    assert found == "Clone it.\n\nRaises as `clone`.\n\nArgs:\n    target: As in `clone`.\n    replace: As in `clone`."


def test_the_changelog_of_the_site_links_to_pages_of_the_site() -> None:
    links = re.findall(r"(?<!`)\]\(([^)#\s]*)(#[^)\s]*)?\)", changelog())
    of_pages = [(page, anchor) for page, anchor in links if page and not page.startswith("http")]
    assert len(of_pages) > 10
    for page, anchor in of_pages:
        target = ROOT / "docs" / page
        assert target.is_file(), page
        assert not anchor or target.suffix != ".md" or anchor[1:] in anchors(target), (page, anchor)


def test_every_method_of_a_delta_table_is_in_one_group() -> None:
    pytest.importorskip("pyspark")
    page = (ROOT / "docs/reference/delta-table.md").read_text(encoding="utf-8")
    methods = sorted(name for name in dir(slackwater.DeltaTable) if not name.startswith("_"))
    assert sorted(re.findall(r"^::: slackwater\.DeltaTable\.(\w+)$", page, re.MULTILINE)) == methods
    assert sorted(re.findall(r"\]\[slackwater\.DeltaTable\.(\w+)\]", page)) == methods

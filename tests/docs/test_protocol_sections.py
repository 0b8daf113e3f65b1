"""Each section of the protocol has a place on the page about its coverage."""

from __future__ import annotations

import pytest
from tools.protocol_sections import LIST, sections

PAGE = LIST.parents[2] / "docs" / "protocol-coverage.md"


@pytest.mark.parametrize("section", LIST.read_text(encoding="utf-8").splitlines())
def test_a_section_is_named(section: str) -> None:
    assert section.lower() in PAGE.read_text(encoding="utf-8").lower()


def test_sections_of_a_text() -> None:
    titles = ("# Overview", "# Actions", "## Change Metadata", "### Format", "# Column Mapping", "## Field Path")
    text = "\n".join((*titles, "# Appendix", "## Schema"))
    assert sections(text) == ["Change Metadata", "Column Mapping", "Schema"]

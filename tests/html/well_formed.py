"""HTML of ours, read as the XML that it is too: every element closed, every attribute in quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree


def parsed(html: object) -> ElementTree.Element:
    """The root of `html`, a document or one element; raises where it is not well-formed.

    The text of a style sheet or a script is no markup, and is left out.
    """
    if isinstance(html, ElementTree.Element):
        return html
    text = re.sub(r"<(style|script)>.*?</\1>", "", str(html), flags=re.DOTALL).removeprefix("<!DOCTYPE html>\n")
    return ElementTree.fromstring(text)  # noqa: S314  text that this process has made


def words(html: object) -> str:
    """All text that is shown, in order, parts separated by one space."""
    return " ".join(part.strip() for part in parsed(html).itertext() if part.strip())


def attributes(html: object) -> Iterator[tuple[str, str, str]]:
    """(element, attribute, value) of all there are."""
    for found in parsed(html).iter():
        yield from ((found.tag.rpartition("}")[2], name, value) for name, value in found.attrib.items())

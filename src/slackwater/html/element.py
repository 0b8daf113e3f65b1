"""HTML and SVG elements as values: `element("td", "a < b", class_="number")`. All text is escaped; only Markup is not.

Unescaped text is impossible, because only this module creates Markup. Active or loading content is rejected: names of
events, `style`, and addresses with a scheme other than http, https and mailto.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final, Union

from slackwater.html.number_format import visible

# Content between tags. None and False are empty; an iterable is a sequence of its entries.
Child = Union["Markup", str, int, float, None, Iterable["Child"]]
Value = str | int | float | None

_TAG = re.compile(r"[a-z][a-zA-Z0-9]*")
_ATTRIBUTE = re.compile(r"[a-z][a-zA-Z0-9-]*")
_SCHEME = re.compile(r"\s*([a-zA-Z][a-zA-Z0-9+.-]*):")
_VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta"})
_FORBIDDEN_TAGS = frozenset({"script", "style", "iframe", "object", "embed", "base", "foreignObject", "link"})
_ADDRESSES = frozenset({"href", "src", "action", "formaction", "poster", "data", "cite", "background"})
_FORBIDDEN_ATTRIBUTES = frozenset({"style", "srcdoc", "srcset"})
_SCHEMES = frozenset({"http", "https", "mailto"})
_MADE_HERE: Final = object()


class Markup:
    """Well-formed and escaped HTML. `str()` returns the HTML, also well-formed XML."""

    __slots__ = ("_html",)

    def __init__(self, text: str, made_by: object = None) -> None:
        if made_by is not _MADE_HERE:
            raise TypeError(
                "Markup has no public constructor. Use element() and fragment(), which escape their arguments"
            )
        self._html = text

    def __str__(self) -> str:
        return self._html

    def __html__(self) -> str:
        """Return the HTML. Template engines do not escape the result of this method."""
        return self._html

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return f"Markup({self._html!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Markup) and other._html == self._html

    def __hash__(self) -> int:
        return hash(self._html)


def element(tag: str, *children: Child, **attributes: Value) -> Markup:
    """Return an element with its children.

    Attributes: `class_` is `class`, an underscore is a hyphen (`aria_label`, `data_version`), capitals stay. None and
    False omit an attribute, True is an attribute without a value. Raises ValueError for an invalid name, and for active
    or loading content.
    """
    if not _TAG.fullmatch(tag) or tag in _FORBIDDEN_TAGS:
        raise ValueError(f"{tag!r} is not an allowed element")
    opened = tag + "".join(_attribute(name, value) for name, value in attributes.items() if value is not None)
    if tag in _VOID:
        if children:
            raise ValueError(f"<{tag}> has no children")
        return Markup(f"<{opened}/>", _MADE_HERE)
    return Markup(f"<{opened}>{''.join(map(_text, children))}</{tag}>", _MADE_HERE)


def fragment(*children: Child) -> Markup:
    """Return the children in sequence, without an element around them."""
    return Markup("".join(map(_text, children)), _MADE_HERE)


def is_empty(child: Child) -> bool:
    """Return whether the child has no content."""
    return not _text(child)


def style_sheet(css: str) -> Markup:
    """Return a `<style>` of this package's rules, never of user input.

    Raises ValueError if the text ends the element or loads another resource.
    """
    if "</" in css or "@import" in css or "url(" in css:
        raise ValueError("a style sheet must neither end itself nor load another resource")
    return Markup(f"<style>{css}</style>", _MADE_HERE)


def _attribute(name: str, value: Value) -> str:
    shown = name.rstrip("_").replace("_", "-")
    if not _ATTRIBUTE.fullmatch(shown) or shown.lower().startswith("on") or shown in _FORBIDDEN_ATTRIBUTES:
        raise ValueError(f"{name!r} is not an allowed attribute")
    if value is False:
        return ""
    text = "" if value is True else visible(str(value))
    if shown in _ADDRESSES and (scheme := _SCHEME.match(text)) and scheme[1].lower() not in _SCHEMES:
        raise ValueError(f"{shown}={text!r} must have one of the schemes {', '.join(sorted(_SCHEMES))}")
    return f' {shown}="{html.escape(text, quote=True)}"'


def _text(child: Child) -> str:
    if child is None or child is False:
        return ""
    if isinstance(child, Markup):
        return str(child)
    if isinstance(child, str | int | float):
        return html.escape(visible(str(child)), quote=True)
    return "".join(map(_text, child))

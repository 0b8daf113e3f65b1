from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.html.element import Markup, element, fragment, style_sheet
from tests.examples import examples
from tests.html.well_formed import parsed

EVIL = "<script>alert('1')</script> & \"x\" \u202etxt\x00"


@given(st.text(), st.text())
@settings(max_examples=examples(100))
def test_any_text_is_shown_as_text_and_never_read_as_markup(text: str, value: str) -> None:
    root = parsed(element("p", text, title=value))
    assert list(root) == []
    if text.isprintable() and text:
        assert root.text == text
    if value.isprintable():
        assert root.attrib == {"title": value}


def test_a_script_in_a_name_is_words() -> None:
    made = str(element("td", EVIL, title=EVIL))
    assert "<script" not in made
    assert parsed(made).text == "<script>alert('1')</script> & \"x\" \\u202etxt\\x00"


def test_what_turns_or_hides_a_line_is_spelled_out() -> None:
    assert str(element("p", "a\u202eb\u200b\x1b[2J")) == "<p>a\\u202eb\\u200b\\x1b[2J</p>"


def test_markup_in_markup_is_not_escaped_again() -> None:
    assert str(element("p", element("b", "a & b"), "<")) == "<p><b>a &amp; b</b>&lt;</p>"


def test_nobody_makes_markup_of_a_string() -> None:
    with pytest.raises(TypeError, match="element"):
        Markup("<b>")
    with pytest.raises(TypeError):
        "<b>" + element("i", "x")  # type: ignore[operator]


def test_attributes_are_named_as_python_can() -> None:
    made = element(
        "svg", viewBox="0 0 1 1", class_="a", aria_label="b", data_version=3, hidden=True, id=None, open=False
    )
    assert str(made) == '<svg viewBox="0 0 1 1" class="a" aria-label="b" data-version="3" hidden=""></svg>'


@pytest.mark.parametrize("name", ["onclick", "onLoad", "style", "srcdoc", "a b", "", "x>y"])
def test_an_attribute_that_could_run_something_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not an allowed attribute"):
        element("p", **{name: "1"})


@pytest.mark.parametrize("tag", ["script", "style", "iframe", "base", "p onclick=x", "", "B><i"])
def test_an_element_that_could_run_something_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="not an allowed element"):
        element(tag)


@pytest.mark.parametrize("address", ["javascript:alert(1)", " JavaScript:x", "data:text/html,x", "vbscript:x"])
def test_an_address_that_could_run_something_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="scheme"):
        element("a", "x", href=address)


@pytest.mark.parametrize("address", ["https://a.b/?c=d&e", "#top", "tables/x:y", "../up", "/api"])
def test_an_address_that_leads_somewhere_is_kept(address: str) -> None:
    if ":" in address and not address.startswith("http"):
        with pytest.raises(ValueError, match="scheme"):
            element("a", "x", href="x:y")
    assert parsed(element("a", "x", href=address)).attrib["href"] == address


def test_nothing_is_nothing_and_lists_are_their_entries() -> None:
    assert str(fragment(None, False, [], ["a", [element("br")], 1, 2.5])) == "a<br/>12.5"


def test_a_style_sheet_neither_ends_itself_nor_loads_anything() -> None:
    for css in ("</style><p>", "@import 'x';", "a{background:url(x)}"):
        with pytest.raises(ValueError, match="style sheet"):
            style_sheet(css)

from __future__ import annotations

import re

import pytest

from slackwater.html.components import badge, bar, card, disclosure, facts, pairs, table
from slackwater.html.page import page
from slackwater.html.theme import DARK, LIGHT, READABLE, css
from tests.html.well_formed import attributes, parsed, words


def _luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(colours: dict[str, str]) -> None:
    poor = {}
    for text, ground in READABLE:
        light, dark = sorted((_luminance(colours[text]), _luminance(colours[ground])), reverse=True)
        contrast = (light + 0.05) / (dark + 0.05)
        if contrast < 4.5:
            poor[text, ground] = contrast
    assert len(READABLE) > 10
    assert poor == {}


def test_both_looks_have_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert set(re.findall(r"var\(--sw-([a-z-]+)\)", css())) <= LIGHT.keys()


def test_no_rule_reaches_outside_the_class() -> None:
    rules = re.sub(r"@media[^{]*\{(.*?\})\}", r"\1", css())
    selectors = [part for rule in re.findall(r"([^{}]+)\{", rules) for part in rule.strip().split(",")]
    assert len(selectors) > 40
    assert [selector for selector in selectors if ".slackwater" not in selector] == []


def test_rules_of_notebooks_for_lists_and_tables_are_undone() -> None:
    """Jupyter floats names, gives what they mean a width, stripes the rows of tables and aligns cells to the right."""
    rules = dict(re.findall(r"^\.slackwater\.slackwater ([^{]+)\{([^}]*)\}$", css(), re.MULTILINE))
    for name in (".sw-fact dt", ".sw-fact dd", ".sw-pairs dt", ".sw-pairs dd"):
        assert {"float:none", "width:auto"} <= set(rules[name].split(";"))
    assert "text-align:left" in rules["td"].split(";")
    assert any("nth-child(odd)" in name and "background:none" in told for name, told in rules.items())


def test_every_class_that_pieces_use_has_a_rule() -> None:
    made = [
        card("table", "t", badges=[badge("a", "good"), badge("b")], note="n"),
        table(["a", "b"], [[1, 2]], right=["b"], caption="c"),
        facts({"rows": 1}),
        pairs({"a": "b"}),
        bar([(0.5, "good"), (0.2, "bad")], "half"),
        disclosure("more", "text", is_open=True),
    ]
    used = {name for piece in made for _, key, value in attributes(piece) if key == "class" for name in value.split()}
    assert used > {"slackwater", "sw-number"}
    assert [name for name in used if f".{name}" not in css()] == []


def test_a_table_aligns_numbers_and_leaves_nothing_empty_out() -> None:
    root = parsed(table(["name", "rows"], [["a<b", 3], [None, None]], right=["rows"]))
    cells = [(cell.text, cell.get("class")) for cell in root.iter("td")]
    assert cells == [("a<b", None), ("3", "sw-number"), (None, None), (None, "sw-number")]


def test_columns_that_are_all_empty_can_be_left_out() -> None:
    rows: list[list[str | None]] = [["a", None, ""], ["b", None, "c"]]
    root = parsed(table(["x", "y", "z"], rows, leaves_out_empty=True))
    assert [cell.text for cell in root.iter("th")] == ["x", "z"]
    assert [cell.text for cell in root.iter("td")] == ["a", None, "b", "c"]


def test_facts_that_are_unknown_are_left_out() -> None:
    assert words(facts({"rows": None, "files": 0})) == "files 0"
    assert str(facts({"rows": None})) == ""


def test_bars_stay_within_their_width_whatever_they_are_given() -> None:
    rects = parsed(bar([(0.8, "good"), (0.8, "bad"), (-1, "warn")], "x", width=100)).iter()
    ends = [float(each.attrib["x"]) + float(each.attrib["width"]) for each in rects if each.tag.endswith("rect")]
    assert max(ends) == 100


def test_a_page_loads_nothing_and_runs_only_its_own_script() -> None:
    made = page("a < b", element_of_user := "<b>hi</b>", script="let a = 1 < 2;", rules=((".x", "color:red"),))
    root = parsed(made)
    assert words(made).endswith(element_of_user)
    assert root.find("./head/title").text == "a < b"  # type: ignore[union-attr]
    policy = next(value for _, name, value in attributes(made) if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert "connect-src" not in policy
    assert "connect-src" in page("t", asks_its_server=True)
    assert "<script>" not in page("t")
    assert not [name for _, name, _ in attributes(made) if name in ("src", "href")]


def test_a_script_that_would_end_its_element_is_refused() -> None:
    with pytest.raises(ValueError, match="script"):
        page("t", script="'</script>'")

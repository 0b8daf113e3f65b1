"""Versions of rows as bars: where they begin and end, and what they say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from slackwater.errors import InvalidArgument
from slackwater.visualization.row_history import RowHistory, RowVersion

SVG = "{http://www.w3.org/2000/svg}"
VERSIONS = (
    RowVersion(("A1",), 1000, 5000, {"qty": 10, "shelf": "north"}, "update"),
    RowVersion(("A1",), 5000, None, {"qty": 7, "shelf": "north"}),
    RowVersion(("B2",), 2000, 4000, {"qty": 3, "shelf": "east"}, "delete"),
)


def bars(path: Path) -> dict[str, tuple[float, float]]:
    """Where each bar begins and ends, by the first two lines that it says."""
    found = {}
    for rect in ElementTree.fromstring(path.read_text(encoding="utf-8")).iter(f"{SVG}rect"):  # noqa: S314  (ours)
        words = rect.findtext(f"{SVG}title")
        if words:
            x = float(rect.attrib["x"])
            found[", ".join(words.split("\n")[:2])] = (x, x + float(rect.attrib["width"]))
    return found


def test_a_bar_is_as_long_as_the_version_was_current(tmp_path: Path) -> None:
    RowHistory("stock", VERSIONS).save(tmp_path / "x.svg")
    found = bars(tmp_path / "x.svg")
    first, second = found["A1, qty 10, shelf north"], found["A1, qty 7, shelf north"]
    other = found["B2, qty 3, shelf east"]
    assert first[1] == pytest.approx(second[0], abs=0.02)
    assert (other[1] - other[0]) * 2 == pytest.approx(first[1] - first[0], abs=0.05)
    assert first[0] < other[0] < other[1] < first[1]
    assert second[1] > first[1], "what is current goes on"


def test_a_bar_names_what_is_other_than_before(tmp_path: Path) -> None:
    RowHistory("stock", VERSIONS).save(tmp_path / "x.svg")
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert ">qty 7</text>" in text
    assert "1970-01-01 00:00:02.000 UTC to 1970-01-01 00:00:04.000 UTC, deleted" in text


def test_what_stands_in_rows_is_text(tmp_path: Path) -> None:
    bad = "</svg><script>x</script>"
    history = RowHistory(bad, [RowVersion((bad,), 0, None, {bad: bad})], has_more=True)
    for name in ("x.html", "x.svg"):
        history.save(tmp_path / name)
        assert "<script" not in (tmp_path / name).read_text(encoding="utf-8")
    assert "<script" not in history._repr_html_()
    assert "others are left out" in history._repr_html_()


def test_a_history_without_versions_is_a_picture_too(tmp_path: Path) -> None:
    RowHistory("stock", []).save(tmp_path / "x.svg")
    assert repr(RowHistory("stock", [])) == "<RowHistory of stock: 0 versions of 0 keys>"


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"\.html, \.svg or \.png"):
        RowHistory("stock", VERSIONS).save(tmp_path / "x.pdf")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        RowHistory("stock", VERSIONS).save(tmp_path / "no" / "x.svg")

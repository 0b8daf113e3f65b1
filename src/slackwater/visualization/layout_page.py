"""Layout of a table as an HTML page: one self-contained file without a script."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.html.components import code, facts, muted, table
from slackwater.html.element import Markup, element, fragment
from slackwater.html.number_format import counted, number, short_bytes
from slackwater.html.page import page
from slackwater.visualization.layout import SMALL_BYTES, Layout, SizeBin
from slackwater.visualization.layout_text import deleted_words, depth_words, optimize_words
from slackwater.visualization.range_overlap import Overlap
from slackwater.visualization.svg import RULES, hint, line, path, picture, rect, text

_WIDTH, _HEIGHT, _FOOT, _TOP = 760.0, 150.0, 26.0, 18.0
_WIDEST_BAR = 84.0
_PROFILE_WIDTH, _PROFILE_HEIGHT = 300.0, 34.0
_SMALL = f"{SMALL_BYTES >> 20} MiB"
_RULES = (
    *RULES,
    (".sw-histogram svg", "width:100%;max-width:760px;min-width:520px;height:auto;display:block;"),
    (".sw-area", "fill:var(--sw-mark);opacity:.85;"),
    ("td svg", "min-width:180px;"),
)


def layout_page(layout: Layout) -> str:
    """Return the document. Its size does not depend on the number of files."""
    return page(
        f"{layout.title}: layout",
        element("h1", layout.title),
        element("p", muted(f"layout of version {layout.version} · "), code(layout.place), class_="sw-small"),
        facts(
            {
                "files": number(layout.files),
                "size": short_bytes(layout.bytes),
                "rows": "unknown" if layout.rows is None else number(layout.rows),
                "median file": short_bytes(layout.median_bytes) if layout.files else None,
                f"files below {_SMALL}": number(layout.small_files),
                "rows deleted by deletion vectors": deleted_words(layout),
                "files with deletion vectors": number(layout.files_with_vectors),
            }
        ),
        element("h2", "OPTIMIZE"),
        element("p", optimize_words(layout)),
        _sizes(layout),
        _overlaps(layout),
        rules=_RULES,
    )


def _sizes(layout: Layout) -> Markup:
    if not layout.sizes:
        return fragment()
    return fragment(
        element("h2", "File sizes"),
        element("div", histogram(layout.sizes), class_="sw-histogram sw-scroll"),
        element("p", f"Files below {_SMALL} (in another colour) take longer to open than to read.", class_="sw-note")
        if layout.small_files
        else None,
    )


def histogram(sizes: Sequence[SizeBin]) -> Markup:
    """Return the histogram of file sizes, one column for each power of two."""
    step = min(_WIDEST_BAR, _WIDTH / len(sizes))
    most = max(each.files for each in sizes)
    base = _TOP + _HEIGHT
    parts = [line(0, base, step * len(sizes), base, "sw-base")]
    skipped = 1 if step >= _WIDEST_BAR * 0.8 else 2 if step >= _WIDEST_BAR * 0.4 else 4
    for at, each in enumerate(sizes):
        x, high = at * step, each.files / most * _HEIGHT
        colour = "sw-is-warn" if each.high_bytes <= SMALL_BYTES else "sw-is-mark"
        said = hint(f"{each.label}: {counted(each.files, 'file')}, {short_bytes(each.bytes)}")
        if each.files:
            parts.append(rect(x + 3, base - max(high, 1), step - 6, max(high, 1), colour, said, rx=2))
            parts.append(text(x + step / 2, base - high - 5, number(each.files), "sw-t-small", "middle"))
        if at % skipped == 0:
            shown = short_bytes(each.low_bytes).replace(".0", "")
            parts.append(text(x, base + 16, shown, "sw-t-small", "start" if not at else "middle"))
    end = short_bytes(sizes[-1].high_bytes).replace(".0", "")
    parts.append(
        text(step * len(sizes), base + 16, end, "sw-t-small", "middle" if step * len(sizes) < _WIDTH else "end")
    )
    return picture(_WIDTH, base + _FOOT, "Number of files by size", *parts)


def _overlaps(layout: Layout) -> Markup:
    if not layout.columns:
        return fragment()
    headers = (
        "column",
        "mean depth",
        "max depth",
        "files of a lookup",
        "depth from the smallest to the largest value",
        "",
    )
    rows = [
        (
            code(each.column),
            f"{each.mean_depth:.1f}",
            number(each.max_depth),
            f"{each.look_up_files:.1f} of {number(each.files)}",
            profile(each),
            depth_words(each),
        )
        for each in layout.columns
    ]
    return fragment(
        element("h2", "Overlap"),
        element(
            "p",
            muted("Depth: the number of files whose statistics include a value. A lookup reads these files."),
        ),
        table(headers, rows, right=("mean depth", "max depth", "files of a lookup")),
        element("p", "The option --by shows other columns with statistics.", class_="sw-note")
        if layout.has_more_columns
        else None,
    )


def profile(overlap: Overlap) -> Markup | None:
    """Return the depth from the least value to the greatest as an area."""
    if not overlap.profile:
        return None
    most = max(overlap.profile)
    step = _PROFILE_WIDTH / len(overlap.profile)
    points = [(0.0, _PROFILE_HEIGHT)]
    for at, depth in enumerate(overlap.profile):
        y = _PROFILE_HEIGHT * (1 - depth / most)
        points += [(at * step, y), ((at + 1) * step, y)]
    points.append((_PROFILE_WIDTH, _PROFILE_HEIGHT))
    said = f"depth of {overlap.column}: mean {overlap.mean_depth:.1f}, maximum {overlap.max_depth}"
    return picture(_PROFILE_WIDTH, _PROFILE_HEIGHT, said, path(points, "sw-area"))

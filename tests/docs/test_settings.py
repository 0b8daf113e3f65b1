"""Every setting of a session and every variable of the environment that the sources name stands in docs/settings.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
TREES = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "src" / "slackwater").rglob("*.py")]
DELTA = "spark.databricks.delta."
_SETTING = re.compile(r"spark\.(?:slackwater|databricks\.delta)\.\w+(?:\.\w+)*")


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, with `{DELTA}` filled in; docstrings are texts too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else _filled(part) for part in node.values]
            yield "".join(map(str, parts))


def _filled(part: ast.expr) -> str:
    is_delta = isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id == "DELTA"
    return DELTA if is_delta else "\n"


def documented(pattern: str) -> set[str]:
    return set(re.findall(rf"^\| `({pattern})` \|", GUIDE, re.MULTILINE))


def test_every_setting_that_the_sources_name_is_in_the_guide_and_all_of_the_guide_are_in_the_sources() -> None:
    named = {found for tree in TREES for text in texts(tree) for found in _SETTING.findall(text)}
    # What is made of a name, and what is not one but the beginning of some.
    named = {name for name in named if name != f"{DELTA}properties.defaults"}
    listed = documented(r"spark\.(?:slackwater|databricks\.delta)\.[^`<]+")
    ignored = {
        name for name in listed if re.search(rf"\| `{re.escape(name)}` \| (?:warned of|without meaning) \|", GUIDE)
    }
    assert len(named) > 25
    assert (sorted(named - listed), sorted(listed - named - ignored)) == ([], [])


def test_every_variable_that_the_sources_name_is_in_the_guide_and_no_other() -> None:
    named = {found for tree in TREES for text in texts(tree) for found in re.findall(r"\bSLACKWATER_[A-Z_]+\b", text)}
    assert sorted(named) == sorted(documented("SLACKWATER_[A-Z_]+")) != []

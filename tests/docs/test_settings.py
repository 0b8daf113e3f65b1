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
_SETTING = re.compile(r"spark\.(?:slackwater|databricks\.delta)\.\w+(?:\.\w+)*(?![.\w])")


def texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, with `{DELTA}` and what the module makes of it filled in; docstrings are texts too."""
    known = {"DELTA": DELTA}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.JoinedStr):
            known[ast.unparse(statement.targets[0])] = _filled(statement.value, known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield _filled(node, known)


def _filled(text: ast.JoinedStr, known: dict[str, str]) -> str:
    """A text with the names in it that are known; a line ends where something else is."""
    parts = [part.value if isinstance(part, (ast.Constant, ast.FormattedValue)) else part for part in text.values]
    return "".join(part if isinstance(part, str) else known.get(getattr(part, "id", ""), "\n") for part in parts)


def documented(pattern: str) -> set[str]:
    return set(re.findall(rf"^\| `({pattern})` \|", GUIDE, re.MULTILINE))


def test_every_setting_that_the_sources_name_is_in_the_guide_and_all_of_the_guide_are_in_the_sources() -> None:
    named = {found for tree in TREES for text in texts(tree) for found in _SETTING.findall(text)}
    listed = documented(r"spark\.(?:slackwater|databricks\.delta)\.[^`<]+")
    ignored = {
        name for name in listed if re.search(rf"\| `{re.escape(name)}` \| (?:warned of|without meaning) \|", GUIDE)
    }
    assert len(named) > 25
    assert (sorted(named - listed), sorted(listed - named - ignored)) == ([], [])


def test_every_variable_that_the_sources_name_is_in_the_guide_and_no_other() -> None:
    named = {found for tree in TREES for text in texts(tree) for found in re.findall(r"\bSLACKWATER_[A-Z_]+\b", text)}
    assert sorted(named) == sorted(documented("SLACKWATER_[A-Z_]+")) != []

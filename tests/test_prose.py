"""Docstrings in plain technical English: few pronouns and relative words, and a verb or a noun at the beginning."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import slackwater

ROOT = Path(slackwater.__file__).parent
# Both figures may only become smaller. Comparable code bases have 0.8 to 3.3, and 0 to 1 %.
MOST_PRONOUNS_PER_100 = 2.0
MOST_VAGUE_BEGINNINGS = 0.001

PRONOUNS = re.compile(
    r"\b(that|which|what|whose|where|whatever|whoever|as|than|those|these|it|them|they)\b", re.IGNORECASE
)
VAGUE = frozenset("what how which whether who where as whose from all each every of for one on only when that".split())
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def _docstrings() -> list[tuple[str, str]]:
    return [found for path in sorted(ROOT.rglob("*.py")) for found in _of_module(path)]


def _of_module(path: Path) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'name', 'module')}", text


def _is_vague(text: str) -> bool:
    return text.split(maxsplit=1)[0].strip("`,:").lower() in VAGUE


def test_docstrings_have_few_pronouns() -> None:
    """Repeat the noun, or split the sentence; `docs/glossary.md` has the terms."""
    words = sum(len(text.split()) for _, text in _docstrings())
    pronouns = {name: len(PRONOUNS.findall(text)) for name, text in _docstrings()}
    worst = sorted(pronouns, key=lambda name: -pronouns[name])[:10]
    assert sum(pronouns.values()) / words * 100 <= MOST_PRONOUNS_PER_100, f"begin with {', '.join(worst)}"


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    vague = [name for name, text in _docstrings() if _is_vague(text)]
    assert len(vague) / len(_docstrings()) <= MOST_VAGUE_BEGINNINGS, f"begin otherwise: {', '.join(vague[:20])}"


def test_modules_and_classes_begin_with_a_noun() -> None:
    vague = [
        name
        for name, text in _docstrings()
        if (name.endswith(":module") or name.rpartition(":")[2].lstrip("_")[:1].isupper()) and _is_vague(text)
    ]
    assert vague == []

"""The section `Args` of a docstring in prose, for the tables of the reference.

The sentences that begin with a parameter in back quotes become rows. A parameter without such a sentence has the first
sentence that names it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_EXAMPLE = re.compile(r"^>>> ", re.MULTILINE)
_SECTION = re.compile(r"^(?:Args|Returns|Raises|Yields|Attributes|Examples):$", re.MULTILINE)
# A sentence ends before the next one, which begins with a capital letter or a name in back quotes.
_END = re.compile(r"(?<=\.)\s+(?=[A-Z`])")
_NAMED = re.compile(
    r"(?P<names>(?:`\w+`(?:, (?:and )?| and )?)+)(?:(?P<colon>:) |,? (?P<verb>is |are |names |as ))(?P<rest>.+)",
    re.DOTALL,
)


def with_parameters(text: str, parameters: Sequence[str]) -> str:
    """Return a docstring with a section `Args` for the parameters that it describes."""
    if re.search(r"^Args:$", text, re.MULTILINE):
        return text
    summary, prose, rest = _parts(text)
    described: dict[str, str] = {}
    kept = []
    for paragraph in prose:
        left = [sentence for sentence in _END.split(paragraph) if not _take(sentence, parameters, described)]
        kept.append(" ".join(left))
    for name in parameters:
        sentences = [*_END.split(summary), *(each for paragraph in prose for each in _END.split(paragraph))]
        if name not in described and (naming := next((each for each in sentences if f"`{name}`" in each), None)):
            described[name] = " ".join(naming.split())
    if not described:
        return text
    rows = [f"    {name}: {described[name]}" for name in parameters if name in described]
    blocks = [summary, *filter(None, kept), "Args:\n" + "\n".join(rows), rest]
    return "\n\n".join(block for block in blocks if block)


def _parts(text: str) -> tuple[str, list[str], str]:
    """Return the summary, the paragraphs of prose, and everything from the first section or example on."""
    starts = [found.start() for found in (_SECTION.search(text), _EXAMPLE.search(text)) if found]
    end = min(starts, default=len(text))
    summary, *prose = [paragraph.strip() for paragraph in text[:end].split("\n\n") if paragraph.strip()] or [""]
    # A list or a table is no prose.
    if any(re.match(r"[-|*] ", paragraph) for paragraph in prose):
        return text[:end].strip(), [], text[end:]
    return summary, prose, text[end:]


def _take(sentence: str, parameters: Sequence[str], described: dict[str, str]) -> bool:
    """Move a sentence that begins with parameters into `described`. Return whether it is one."""
    found = _NAMED.match(sentence)
    if found is None:
        return False
    names = re.findall(r"`(\w+)`", found["names"])
    if not set(names) <= set(parameters) or any(name in described for name in names):
        return False
    verb = found["verb"] or ""
    text = " ".join(((verb if verb in ("as ", "names ") else "") + found["rest"]).split())
    for name in names:
        described[name] = text[0].upper() + text[1:] if not text.startswith("`") else text
    return True

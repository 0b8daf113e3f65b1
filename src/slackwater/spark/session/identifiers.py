"""Names in SQL text and in Spark's messages."""

from __future__ import annotations

import re

from slackwater.protocol.schema_changes.column_names import OWN_PREFIX

_PATH_NAME = re.compile(r"(?is)delta\.`(.+)`\Z")
_PART = re.compile(r"`(?:[^`]|``)*`")
_NAME = re.compile(rf"{_PART.pattern}(?:\.{_PART.pattern})*")
_NAMES = f"{_NAME.pattern}(?:, {_NAME.pattern})*"
_SUGGESTED = re.compile(rf"( Did you mean one of the following\? \[)({_NAMES})(\]\.)")
_AMBIGUOUS = re.compile(rf"(is ambiguous, could be: \[)({_NAMES})(\])")
_OURS_IN_PLAN = re.compile(rf"\b{OWN_PREFIX}_(\w+)")


def path_in_text(name: str) -> str | None:
    """Return the path in a table name, as text, of the form ``delta.`/path` ``, None for any other name."""
    match = _PATH_NAME.match(name.strip())
    return match[1].replace("``", "`") if match else None


def without_our_names(text: str) -> str:
    """Return Spark's message about an unknown or ambiguous name, without internal names of this package."""
    return _AMBIGUOUS.sub(_of_users, _SUGGESTED.sub(_of_users, text))


def plan_in_words(text: str) -> str:
    """Return a plan without the prefix of this package's internal names: `dv_words#7` for a column, `view_3`."""
    return _OURS_IN_PLAN.sub(lambda found: f"view_{found[1]}" if found[1].isdigit() else found[1], text)


def _of_users(suggested: re.Match[str]) -> str:
    given = [_PART.findall(name) for name in _NAME.findall(suggested[2])]
    kept = [[part for part in parts if not part.startswith(f"`{OWN_PREFIX}")] for parts in given]
    if len(given) == 1 and len(given[0]) > 2 and kept != given:
        # Spark joins names with the same qualifier by dots, like the parts of one name.
        names = kept[0]
    else:
        # Leave out internal columns. The qualifier of a user's column can be the internal name of a frame.
        names = [".".join(left) for parts, left in zip(given, kept, strict=True) if left[-1:] == parts[-1:]]
    return f"{suggested[1]}{', '.join(names)}{suggested[3]}" if names else ""

"""Names as SQL text, and in what Spark says of it."""

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
    """The path in a table name, as text, of the form ``delta.`/path` ``, None for any other name."""
    match = _PATH_NAME.match(name.strip())
    return match[1].replace("``", "`") if match else None


def without_our_names(text: str) -> str:
    """What Spark says of an unknown or ambiguous name, without names that only this package has given."""
    return _AMBIGUOUS.sub(_of_users, _SUGGESTED.sub(_of_users, text))


def plan_in_words(text: str) -> str:
    """A plan without the prefix of names that only this package has given: `dv_words#7` for a column, `view_3`."""
    return _OURS_IN_PLAN.sub(lambda found: f"view_{found[1]}" if found[1].isdigit() else found[1], text)


def _of_users(suggested: re.Match[str]) -> str:
    given = [_PART.findall(name) for name in _NAME.findall(suggested[2])]
    kept = [[part for part in parts if not part.startswith(f"`{OWN_PREFIX}")] for parts in given]
    if len(given) == 1 and len(given[0]) > 2 and kept != given:
        # Names of one place come joined by dots, as if they were parts of one.
        names = kept[0]
    else:
        # A column of ours is left out; before a user's stands the name of a frame, which may be ours.
        names = [".".join(left) for parts, left in zip(given, kept, strict=True) if left[-1:] == parts[-1:]]
    return f"{suggested[1]}{', '.join(names)}{suggested[3]}" if names else ""

"""HTML table of commits: time, operation, changed rows and files, and user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slackwater.html.components import muted, table
from slackwater.html.element import Child, Markup, element, fragment
from slackwater.html.number_format import one_line, shortened
from slackwater.html.redaction import without_secrets
from slackwater.log.files.commit_changes import commit_changes
from slackwater.protocol.actions.commit_info import info_of

_LONGEST_TEXT = 200
_LONGEST_NOTE = 60
_HEADERS = ("version", "committed (UTC)", "operation", "rows", "files", "by")


def commit_table(commits: Iterable[tuple[int, Child, Sequence[Mapping[str, Any]]]]) -> Markup:
    """Return a table with one row for each commit, built from its version, time and actions."""
    return table(_HEADERS, map(_row, commits), right=["version", "rows", "files"], leaves_out_empty=True)


def truncate_text(text: object, most: int = _LONGEST_TEXT) -> str:
    """Return text of the log without secrets, on one line and with at most `most` characters."""
    return shortened(without_secrets(one_line(str(text))), most)


def _row(commit: tuple[int, Child, Sequence[Mapping[str, Any]]]) -> Sequence[Child]:
    version, at, actions = commit
    info, changes = info_of(actions), commit_changes(actions)
    who = info.get("userName") or info.get("userId") or info.get("engineInfo")
    said = info.get("userMetadata")
    note = said and fragment(" ", muted(truncate_text(said, _LONGEST_NOTE)))
    return (
        version,
        at,
        fragment(truncate_text(info.get("operation") or ""), note),
        _counts(
            ("+", changes.rows_added, "good"),
            ("~", changes.rows_updated, "warn"),
            ("−", changes.rows_removed, "bad"),
        ),
        _counts(("+", changes.files_added, "good"), ("−", changes.files_removed, "bad")),
        who and truncate_text(who, _LONGEST_NOTE),
    )


def _counts(*counts: tuple[str, int | None, str]) -> Child:
    """Return text such as `+5 ~2 −1`: added, updated and removed. Zeros and unknown numbers are omitted."""
    shown = [element("span", f"{sign}{count:,}", class_=f"sw-{kind}") for sign, count, kind in counts if count]
    return [part for each in shown for part in (each, " ")][:-1]

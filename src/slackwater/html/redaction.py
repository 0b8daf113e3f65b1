"""Texts without the secrets that URLs and connection strings carry: what may leave the process.

A database's URL may hold a password in its user part, in its query and, as drivers repeat it, in words of `key=value`.
"""

from __future__ import annotations

import re

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<rest>[^\s'\"<>]+)")
_WORD = re.compile(
    r"(?i)\b(?P<key>\w*(?:password|passwd|pwd|passfile|secret|token|credential|access_key|accountkey|signature)\w*)"
    r"(?P<sign>\s*=\s*|['\"]\s*:\s*)(?P<value>'[^']*'|\"[^\"]*\"|[^\s&,;'\")]+)"
)
_BEARER = re.compile(r"(?i)\bbearer\s+[\w.~+/=-]{8,}")
_SECRET_KEY = re.compile(
    r"(?i)password|passwd|passfile|secret|token|credential|access.?key|account.?key|api.?key|sas\b"
)
HIDDEN = "***"
"""What stands for a secret."""


def without_secrets(text: str) -> str:
    """`text` whose URLs have no user, password, query or fragment, and whose `password=…` says nothing."""
    shown = _URL.sub(lambda found: found["scheme"] + _place(found["rest"]), text)
    shown = _WORD.sub(lambda found: f"{found['key']}{found['sign']}{HIDDEN}", shown)
    return _BEARER.sub(f"Bearer {HIDDEN}", shown)


def setting_without_secrets(key: str, value: str) -> str:
    """The `value` of a setting, nothing of it where its `key` names a secret."""
    return HIDDEN if _SECRET_KEY.search(key) else without_secrets(value)


def _place(rest: str) -> str:
    """The host and the path of a URL's part behind `://`."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    has_user = "@" in authority
    # A password that is not encoded may itself hold what ends a host.
    port = authority.rpartition(":")[2] if ":" in authority and not authority.endswith("]") else "0"
    if has_user or (not port.isdigit() and "@" in rest):
        rest = rest.rpartition("@")[2]
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    closing = rest[len(place) :]
    # What ends a sentence or a parenthesis is no part of the query.
    return place + (closing[-1] if closing and closing[-1] in ").,;:" else "")

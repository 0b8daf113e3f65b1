"""Redaction of secrets in URLs and connection strings, before a text leaves the process.

A database URL may contain a password in its user part and in its query. Drivers repeat the password in `key=value`
pairs.
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
"""Replacement for a secret."""


def without_secrets(text: str) -> str:
    """Remove user, password, query and fragment of URLs in `text`, and the values of `password=…` and similar keys."""
    shown = _URL.sub(lambda found: found["scheme"] + _place(found["rest"]), text)
    shown = _WORD.sub(lambda found: f"{found['key']}{found['sign']}{HIDDEN}", shown)
    return _BEARER.sub(f"Bearer {HIDDEN}", shown)


def setting_without_secrets(key: str, value: str) -> str:
    """Return the `value` of a setting without secrets, fully hidden if the `key` names a secret."""
    return HIDDEN if _SECRET_KEY.search(key) else without_secrets(value)


def _place(rest: str) -> str:
    """Return the host and path of a URL's part after `://`."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    has_user = "@" in authority
    # An unencoded password may contain a delimiter of the host.
    port = authority.rpartition(":")[2] if ":" in authority and not authority.endswith("]") else "0"
    if has_user or (not port.isdigit() and "@" in rest):
        rest = rest.rpartition("@")[2]
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    closing = rest[len(place) :]
    # Punctuation after the URL is not part of the query.
    return place + (closing[-1] if closing and closing[-1] in ").,;:" else "")

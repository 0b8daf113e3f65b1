"""Addresses of served owners, and detection of local addresses."""

from __future__ import annotations

import ipaddress

import httpx

from slackwater.errors import InvalidArgument


def checked_url(url: str) -> str:
    """Return the normalized `url` without a trailing slash. Raises InvalidArgument if it cannot be an owner's URL.

    An owner's URL is http or https, without secrets: no user, no query, no fragment.
    """
    # The messages omit the URL, because it may contain a password.
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidArgument("the commit owner's URL is not valid. Expected https://host:port") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidArgument(
            "the commit owner's URL must be https://host:port, or http:// on this machine. For a lake at a path, "
            "use open"
        )
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise InvalidArgument(
            "the commit owner's URL contains a user, a query or a fragment. Pass the token as `token`"
        )
    return str(parsed).rstrip("/")


def is_in_the_clear(url: str) -> bool:
    """Return whether requests to `url` can be intercepted: no TLS, and not this machine."""
    parsed = httpx.URL(url)
    return parsed.scheme != "https" and not is_loopback(parsed.host)


def is_loopback(host: str) -> bool:
    """Return whether `host` (name or address) is local: `localhost`, 127.0.0.0/8, ::1."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_unspecified(host: str) -> bool:
    """Return whether `host` means every address of this machine: 0.0.0.0, ::. No client can connect to it."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host

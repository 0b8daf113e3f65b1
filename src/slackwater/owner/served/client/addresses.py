"""Addresses of served owners, and which of them are this machine itself."""

from __future__ import annotations

import ipaddress

import httpx

from slackwater.errors import InvalidArgument


def checked_url(url: str) -> str:
    """`url` in its usual form, without a slash at its end. Raises InvalidArgument for one that is no owner's address.

    An owner's address is http or https and holds no secret: no user, no query, no fragment.
    """
    # The URL stays out of the messages: it may hold a password.
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidArgument("the commit owner's URL cannot be read: expected https://host:port") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidArgument(
            "the commit owner's URL is to be https://host:port, or http:// on this machine; a lake at a path is opened "
            "by open"
        )
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise InvalidArgument("the commit owner's URL holds a user, a query or a fragment: give the token as `token`")
    return str(parsed).rstrip("/")


def is_in_the_clear(url: str) -> bool:
    """Whether others may read what is sent to `url`: no TLS, and not this machine."""
    parsed = httpx.URL(url)
    return parsed.scheme != "https" and not is_loopback(parsed.host)


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address, is reached without a network: `localhost`, 127.0.0.0/8, ::1."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_unspecified(host: str) -> bool:
    """Whether `host` stands for every address of this machine, to which no client can connect: 0.0.0.0, ::."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host

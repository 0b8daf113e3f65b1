"""Settings of a served owner for its operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.errors import InvalidArgument

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServedSettings:
    """Limits of a served owner. Sizes in bytes, times in seconds. Raises InvalidArgument if a limit is not positive.

    Connections: at most `max_connections`, and `max_connections_per_address` per address (one /64 network for IPv6).
    Idle connections are closed to admit new ones. A connection is also closed if a request does not arrive within
    `head_timeout_s`, or if the client reads no response for `send_timeout_s`.

    Bodies: `max_bytes_in_flight` limits the memory for bodies and their parsed values. A body may have one JSON value
    per 32 bytes of `max_body_bytes`. Each token may send `rate_per_s` requests per second, None for no limit.

    Concurrency: `concurrent_commits` applies separately to commits, to commits of transactions with locks, and to
    decided transactions. `concurrent_waits` applies to lock requests. `concurrent_reads` applies separately to reads of
    the latest state, reads of the past, and transaction steps. Each queue holds `waiting_calls` further calls. With
    `public_metrics`, `/metrics` needs no token. It includes table names.

    `credentials` are storage options given out to clients of Unity Catalog, empty for none. Each client with the scope
    `read` gets them.
    """

    max_body_bytes: int = 32 * MIB
    max_bytes_in_flight: int = 512 * MIB
    rate_per_s: float | None = None
    concurrent_commits: int = 64
    concurrent_reads: int = 32
    concurrent_waits: int = 64
    waiting_calls: int = 1024
    max_connections: int = 1000
    max_connections_per_address: int = 250
    head_timeout_s: float = 10.0
    send_timeout_s: float = 60.0
    body_timeout_s: float = 60.0
    health_timeout_s: float = 5.0
    public_metrics: bool = False
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and name not in ("public_metrics", "credentials") and not value > 0:
                raise InvalidArgument(f"the setting {name} must be greater than 0, found {value!r}")

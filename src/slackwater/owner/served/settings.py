"""Settings that the operator of a served owner can choose."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import InvalidArgument

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServedSettings:
    """Limits of a served owner; sizes in bytes, times in seconds. Raises InvalidArgument where one is not positive.

    There are `max_connections`, of one address (of IPv6: one /64 network) `max_connections_per_address`; idle ones are
    ended for new ones, and those whose request does not come within `head_timeout_s`, or who take nothing of an answer
    for `send_timeout_s`. `max_bytes_in_flight` is the memory that bodies and what they are parsed to take together, at
    most; a body has a JSON value for each 32 bytes of `max_body_bytes`. `rate_per_s` requests a second are taken of
    each token, None for any number. `concurrent_commits` wait for the owner at once, as many of transactions that hold
    locks and of those that are decided, `concurrent_waits` for locks, and `concurrent_reads` each of the latest state,
    of the past, and of steps of transactions; `waiting_calls` queue behind each. With `public_metrics` no token is
    needed for `/metrics`, which names the tables.
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

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and name != "public_metrics" and not value > 0:
                raise InvalidArgument(f"the setting {name} is to be greater than 0, found {value!r}")

"""Time zones by their names in Spark sessions.

Source: Spark's `spark.sql.session.timeZone`.
"""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

from slackwater.errors import InvalidArgument

_FIXED_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?(?::\d{2})?\Z")


def time_zone(zone: str) -> dt.tzinfo:
    """Return the time zone with Spark's name `zone`: an IANA name or an offset. Raises InvalidArgument if unknown."""
    if zone in ("Z", "UTC", "GMT"):
        return dt.timezone.utc
    try:
        if match := _FIXED_OFFSET.match(zone):
            offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
            return dt.timezone(-offset if match[1] == "-" else offset)
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidArgument(
            f"unknown time zone {zone!r}. Use a name such as Europe/Copenhagen, or an offset such as +02:00. In a "
            "session, set spark.sql.session.timeZone to it"
        ) from error

"""Setting for progress display."""

from __future__ import annotations

import os

VARIABLE = "SLACKWATER_PROGRESS"
SETTING = "spark.slackwater.progress"
_SWITCH = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


def progress_switch(setting: str = "") -> bool | None:
    """Return the value of `setting`, else of the environment variable SLACKWATER_PROGRESS. None if neither is set."""
    chosen = _SWITCH.get(setting.lower())
    return _SWITCH.get(os.environ.get(VARIABLE, "").lower()) if chosen is None else chosen

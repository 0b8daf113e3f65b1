"""Whether people want to see how far long work is, where they say so."""

from __future__ import annotations

import os

VARIABLE = "SLACKWATER_PROGRESS"
_SWITCH = {"1": True, "true": True, "on": True, "yes": True, "0": False, "false": False, "off": False, "no": False}


def progress_switch(setting: str = "") -> bool | None:
    """What `setting` says, else the environment variable SLACKWATER_PROGRESS; None where neither says anything."""
    chosen = _SWITCH.get(setting.lower())
    return _SWITCH.get(os.environ.get(VARIABLE, "").lower()) if chosen is None else chosen

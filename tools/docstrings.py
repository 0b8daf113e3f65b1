"""Docstrings as the reference shows them: examples are blocks of code, and parameters are tables."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import griffe

if TYPE_CHECKING:
    from tools.parameters import with_parameters
else:
    sys.path.insert(0, str(Path(__file__).parent))
    from parameters import with_parameters

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Marks examples: from `>>>` to the next empty line. Lists parameters."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object before it is parsed."""
        if obj.docstring is None:
            return
        text = obj.docstring.value
        if isinstance(obj, griffe.Function):
            text = with_parameters(text, [each.name.lstrip("*") for each in obj.parameters])
        obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)

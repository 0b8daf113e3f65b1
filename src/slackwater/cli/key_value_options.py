"""Options that are given as KEY=VALUE."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """What `texts` say, later ones winning. Raises typer.BadParameter that names `option`, and repeats no text."""
    found: dict[str, str] = {}
    for text in texts:
        # The text stays out of the message: it may be a secret.
        key, separator, value = text.partition("=")
        if not (key and separator):
            raise typer.BadParameter("expected KEY=VALUE, found one without its key or its =", param_hint=option)
        found[key] = value
    return found

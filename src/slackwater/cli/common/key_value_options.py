"""Parser of KEY=VALUE options."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def key_values(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse `texts`; later values override earlier ones. Raises typer.BadParameter with the name `option` only."""
    found: dict[str, str] = {}
    for text in texts:
        # The message omits the text, because it may be a secret.
        key, separator, value = text.partition("=")
        if not (key and separator):
            raise typer.BadParameter("expected KEY=VALUE, found a value without key or without =", param_hint=option)
        found[key] = value
    return found

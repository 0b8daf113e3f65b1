"""Optional dependencies by extra, and the error message for missing ones: purpose and pip command.

The names are import names; pyproject.toml has the names for pip.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from slackwater.errors import InvalidArgument

EXTRAS = {
    "cli": ("typer", "rich"),
    "lake": ("sqlalchemy", "alembic", "httpx", "pydantic"),
    "spark": ("pyspark", "pandas"),
    "stores": ("obstore",),
    "server": ("fastapi", "uvicorn", "prometheus_client", "jwt", "sqlalchemy", "alembic", "httpx", "pydantic"),
}


def require(extra: str, what: str) -> None:
    """Raise InvalidArgument if a package of `extra` is missing. `what` needs it: "a lake", "the command line"."""
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidArgument(missing_sentence(extra, what, missing))


def missing_sentence(extra: str, what: str, missing: Iterable[str]) -> str:
    """Return the error message for `missing` packages of `extra`, with the pip command."""
    names = list(missing)
    are = "is" if len(names) == 1 else "are"
    return f"{what} needs {', '.join(names)}, which {are} not installed: pip install 'slackwater[{extra}]'"

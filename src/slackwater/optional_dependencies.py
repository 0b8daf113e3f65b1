"""What is installed with an extra only, and the one sentence for what is missing: what for, and the line for pip.

The names are those that are imported; pyproject.toml has those that pip installs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from slackwater.errors import InvalidArgument

EXTRAS = {
    "cli": ("typer", "rich"),
    "lake": ("sqlalchemy", "alembic", "httpx", "pydantic"),
    "stores": ("obstore",),
    "server": ("fastapi", "uvicorn", "prometheus_client", "sqlalchemy", "alembic", "httpx", "pydantic"),
}


def require(extra: str, what: str) -> None:
    """Raise InvalidArgument where a package of `extra` is missing, which `what` needs: "a lake", "the command line"."""
    missing = [name for name in EXTRAS[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise InvalidArgument(missing_sentence(extra, what, missing))


def missing_sentence(extra: str, what: str, missing: Iterable[str]) -> str:
    """What to do about `missing` packages of `extra`."""
    names = list(missing)
    are = "is" if len(names) == 1 else "are"
    return f"{what} needs {', '.join(names)}, which {are} not installed: pip install 'slackwater[{extra}]'"

"""Permissions of a caller: scopes, and grants that limit the caller to tables and namespaces.

Source: docs/security.md "Grants".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

from slackwater.errors import InvalidArgument
from slackwater.owner.api.field_types import NAME_PATTERN

DEFAULT_NAMESPACE = "default"
"""Namespace of tables without a dot in their names."""
EVERYTHING = "*"
"""Pattern for all tables."""

_IN_NAMESPACE = ".*"
_NAME = re.compile(NAME_PATTERN)


class Scope(str, Enum):
    """Scope of a token. Each scope includes the previous scopes."""

    READ = "read"
    """Read tables and commits."""
    COMMIT = "commit"
    """Write to tables."""
    ADMIN = "admin"
    """Adopt, release and repair tables."""

    def includes(self, other: Scope) -> bool:
        """Return whether this scope permits everything permitted by `other`."""
        order = list(Scope)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Grant:
    """A scope for some tables. `pattern` is a table's name, a namespace such as `sales.*`, or `*` for all tables."""

    pattern: str
    scope: Scope

    @classmethod
    def parse(cls, text: str) -> Grant:
        """Return the grant of a text such as `sales.*:commit`.

        Raises:
            InvalidArgument: If the text is not a pattern and a scope with a colon in between.
        """
        pattern, _, scope = text.rpartition(":")
        namespace_or_name = pattern.removesuffix(_IN_NAMESPACE)
        if (pattern != EVERYTHING and not _NAME.fullmatch(namespace_or_name)) or scope not in _SCOPES:
            raise InvalidArgument(
                f"grant {text[:300]!r}: not a table, a namespace or '*' with one of the scopes {', '.join(_SCOPES)}. "
                "Write it like 'sales.*:commit' or 'stock:read'"
            )
        return cls(pattern, Scope(scope))

    def covers(self, table: str) -> bool:
        """Return whether the pattern includes the table with this name."""
        if self.pattern.endswith(_IN_NAMESPACE):
            return namespace_of(table) == self.pattern.removesuffix(_IN_NAMESPACE)
        return self.pattern in (EVERYTHING, table)

    def __str__(self) -> str:
        return f"{self.pattern}:{self.scope.value}"


_SCOPES = tuple(scope.value for scope in Scope)

Grants = tuple[Grant, ...]
"""Grants of a caller. None instead of a tuple for a caller with access to all tables."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller: name, scopes, expiry (ms since the epoch), and grants.

    Without `grants` (None) the scopes apply to all tables. With grants, a table needs a grant and the scope.
    """

    name: str
    scopes: frozenset[Scope]
    expires_ms: int | None = None
    grants: Grants | None = None

    def allows(self, scope: Scope) -> bool:
        """Return whether the scopes include `scope`."""
        return any(own.includes(scope) for own in self.scopes)

    def may(self, scope: Scope, table: str) -> bool:
        """Return whether the scopes and the grants permit `scope` for the table with this name."""
        return self.allows(scope) and (
            self.grants is None or any(g.scope.includes(scope) and g.covers(table) for g in self.grants)
        )

    def may_everywhere(self, scope: Scope) -> bool:
        """Return whether the scopes and the grants permit `scope` for all tables."""
        return self.allows(scope) and (
            self.grants is None or any(g.scope.includes(scope) and g.pattern == EVERYTHING for g in self.grants)
        )


def namespace_of(table: str) -> str:
    """Return the namespace of a table's name: the part before the last dot, or DEFAULT_NAMESPACE."""
    return table.rpartition(".")[0] or DEFAULT_NAMESPACE


def table_name(namespace: str, table: str) -> str:
    """Return the name of a table in a namespace. Source: `namespace_of`."""
    return table if namespace == DEFAULT_NAMESPACE else f"{namespace}.{table}"


def parse_grants(texts: Iterable[str], scopes: Collection[Scope]) -> Grants:
    """Return the grants in `texts`, each once.

    Raises:
        InvalidArgument: If there is no grant, if a text is not a grant, or if a grant exceeds `scopes`.
    """
    grants = tuple(dict.fromkeys(Grant.parse(text) for text in texts))
    if not grants:
        raise InvalidArgument("grants: none was found. Name at least one, like 'sales.*:commit'")
    for grant in grants:
        if not any(scope.includes(grant.scope) for scope in scopes):
            raise InvalidArgument(
                f"grant {str(grant)!r}: the scopes of the token do not include {grant.scope.value!r}. Create a token "
                "with that scope, or grant less"
            )
    return grants

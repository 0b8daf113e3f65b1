"""Parsers of table maintenance: OPTIMIZE, VACUUM, RESTORE, CONVERT, GENERATE, REORG, DESCRIBE."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import InvalidArgument
from slackwater.sql.definitions import paths_of
from slackwater.sql.lexer import SqlName, TokenCursor
from slackwater.sql.time_travel import FROM_TO, Travel, travel_at


@dataclass(frozen=True)
class Target:
    """A table by its name, or by a path in quotes."""

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """Name in messages."""
        return ".".join(self.parts)


def target_of(cursor: TokenCursor) -> Target:
    """Parse the next name or path in quotes. A path has the form ``delta.`path` ``."""
    if cursor.sees_literal():
        return Target(("delta", _rooted(cursor.literal())))
    return Target(cursor.name("the name of a table, or a path in quotes").parts)


def _rooted(path: str) -> str:
    # Without slash and scheme, the path is a directory of the working directory, not a name in a catalog.
    return path if "/" in path or ":" in path else f"./{path}"


@dataclass(frozen=True)
class Optimize:
    """OPTIMIZE: `where` is SQL, `z_order` are column paths in SQL."""

    target: Target
    full: bool
    where: str | None
    z_order: tuple[str, ...]


def optimize_of(cursor: TokenCursor) -> Optimize:
    """Parse the OPTIMIZE at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("OPTIMIZE")
    cursor.accept("TABLE")
    target = target_of(cursor)
    full = cursor.accept("FULL")
    where = _condition(cursor, "ZORDER") if cursor.accept("WHERE") else None
    z_order: tuple[str, ...] = ()
    if cursor.accept("ZORDER", "BY"):
        z_order = paths_of(cursor) if cursor.peek("(") else tuple(cursor.names())
        if not z_order:
            raise InvalidArgument("ZORDER BY needs a column")
    cursor.done()
    return Optimize(target, full, where, z_order)


def _condition(cursor: TokenCursor, *ends: str) -> str:
    found = cursor.until(*ends)
    if not found:
        raise cursor.unexpected("a condition after WHERE")
    return found


@dataclass(frozen=True)
class Vacuum:
    """VACUUM: `inventory` is a query, `lite` is None without LITE and FULL."""

    target: Target
    lite: bool | None
    inventory: str | None
    retention_hours: float | None
    dry_run: bool


def vacuum_of(cursor: TokenCursor) -> Vacuum:
    """Parse the VACUUM at the cursor, with its clauses in any order. Raises InvalidArgument for another statement."""
    cursor.expect("VACUUM")
    cursor.accept("TABLE")
    target = target_of(cursor)
    found: dict[str, bool | str | float] = {}
    while not cursor.is_done:
        place = cursor.at
        key, value = _vacuum_clause(cursor)
        if key in found:
            cursor.at = place
            raise cursor.unexpected("each clause once")
        found[key] = value
    lite, inventory, hours = found.get("lite"), found.get("inventory"), found.get("hours")
    return Vacuum(
        target,
        None if lite is None else bool(lite),
        None if inventory is None else str(inventory),
        None if hours is None else float(hours),
        "dry_run" in found,
    )


def _vacuum_clause(cursor: TokenCursor) -> tuple[str, bool | str | float]:
    if cursor.accept("LITE"):
        return "lite", True
    if cursor.accept("FULL"):
        return "lite", False
    if cursor.accept("DRY", "RUN"):
        return "dry_run", True
    if cursor.accept("RETAIN"):
        hours = float(cursor.number("a number of hours"))
        if cursor.accept_any("HOURS", "HOUR") is None:
            raise cursor.unexpected("HOURS")
        return "hours", hours
    if cursor.accept("USING", "INVENTORY"):
        if cursor.peek("("):
            return "inventory", cursor.group()
        return "inventory", f"TABLE {cursor.name().text}"
    raise cursor.unexpected("LITE, FULL, RETAIN n HOURS, USING INVENTORY or DRY RUN")


@dataclass(frozen=True)
class Restore:
    """RESTORE to a version or a time."""

    target: Target
    travel: Travel


def restore_of(cursor: TokenCursor) -> Restore:
    """Parse the RESTORE at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("RESTORE")
    cursor.accept("TABLE")
    target = Target(cursor.name().parts)
    cursor.accept("TO")
    found = travel_at(cursor.text, cursor.tokens[: cursor.end], cursor.at)
    if found is None or len(found[0].texts) != 1 or found[0].kind == FROM_TO:
        raise cursor.unexpected("VERSION AS OF or TIMESTAMP AS OF")
    travel, cursor.at = found
    cursor.done()
    return Restore(target, travel)


@dataclass(frozen=True)
class Convert:
    """CONVERT TO DELTA: `partitions` are column definitions in DDL text."""

    source: SqlName
    with_statistics: bool
    partitions: str | None


def convert_of(cursor: TokenCursor) -> Convert:
    """Parse the CONVERT TO DELTA at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("CONVERT", "TO", "DELTA")
    source = cursor.name()
    with_statistics = not cursor.accept("NO", "STATISTICS")
    partitions = cursor.group() if cursor.accept("PARTITIONED", "BY") else None
    cursor.done()
    return Convert(source, with_statistics, partitions)


@dataclass(frozen=True)
class Generate:
    """GENERATE: the mode and the table."""

    mode: str
    target: Target


def generate_of(cursor: TokenCursor) -> Generate:
    """Parse the GENERATE at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("GENERATE")
    mode = cursor.literal() if cursor.sees_literal() else cursor.name("what to generate").parts[-1]
    cursor.expect("FOR", "TABLE")
    target = Target(cursor.name().parts)
    cursor.done()
    return Generate(mode, target)


@dataclass(frozen=True)
class Reorg:
    """REORG: `upgrade` is the argument of APPLY other than PURGE."""

    target: Target
    where: str | None
    upgrade: str | None


def reorg_of(cursor: TokenCursor) -> Reorg:
    """Parse the REORG at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("REORG")
    cursor.accept("TABLE")
    target = Target(cursor.name().parts)
    where = _condition(cursor, "APPLY") if cursor.accept("WHERE") else None
    cursor.expect("APPLY")
    inner = cursor.inner("(PURGE)")
    cursor.done()
    if inner.accept("PURGE"):
        inner.done()
        return Reorg(target, where, None)
    if not inner.peek("UPGRADE"):
        raise inner.unexpected("PURGE")
    return Reorg(target, where, inner.rest())


@dataclass(frozen=True)
class DescribeLog:
    """DESCRIBE HISTORY with a maximum number of commits, or DESCRIBE DETAIL."""

    is_history: bool
    target: Target
    limit: int | None = None


def log_of(cursor: TokenCursor) -> DescribeLog | None:
    """Parse the DESCRIBE HISTORY or DETAIL at the cursor, or return None for another statement.

    A name or a path must follow the keyword, because a table may be named `history`. Raises InvalidArgument.
    """
    if cursor.accept_any("DESCRIBE", "DESC") is None:
        return None
    word = cursor.accept_any("HISTORY", "DETAIL")
    if word is None or cursor.is_done or not (cursor.sees_literal() or cursor.tokens[cursor.at].is_name):
        return None
    target, limit = target_of(cursor), None
    if word == "HISTORY" and cursor.accept("LIMIT"):
        limit = int(cursor.number())
    cursor.done()
    return DescribeLog(word == "HISTORY", target, limit)


@dataclass(frozen=True)
class Description:
    """DESCRIBE TABLE: `column` is a path."""

    table: SqlName
    extended: bool
    column: tuple[str, ...] | None = None
    has_partition: bool = False
    as_json: bool = False


_OTHER_THINGS = ("FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG", "QUERY", "PROCEDURE")


def description_of(cursor: TokenCursor) -> Description | None:
    """Parse the DESCRIBE TABLE at the cursor, or return None for any other statement."""
    if cursor.accept_any("DESCRIBE", "DESC") is None:
        return None
    if cursor.ahead() in _OTHER_THINGS and cursor.ahead(1) not in ("", "."):
        return None
    if cursor.ahead(1) != ".":
        cursor.accept("TABLE")
    extended = cursor.ahead(1) != "." and cursor.accept_any("EXTENDED", "FORMATTED") is not None
    try:
        table = cursor.name()
        has_partition = cursor.accept("PARTITION")
        if has_partition:
            cursor.group()
        as_json = cursor.accept("AS", "JSON")
        column = None if cursor.is_done else cursor.name("a column").parts
        as_json = as_json or cursor.accept("AS", "JSON")
        cursor.done()
    except InvalidArgument:
        return None
    return Description(table, extended, column, has_partition, as_json)

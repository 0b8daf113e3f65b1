"""Help of commands: one column of names, one of texts with defaults, and examples at the end."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_EXAMPLES = "\n\nExamples:\n"


class _Help:
    """Help of a command or a group. It replaces Typer's boxes, with their Python types and shortened option names.

    The section `Examples:` ends the text of the command, with one command line per line.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        text, _, examples = inspect.cleandoc(options.get("help") or "").partition(_EXAMPLES)
        super().__init__(*arguments, **{**options, "help": text})
        self.examples = tuple(textwrap.dedent(examples).splitlines())

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        # Typer writes {PATH} for a required argument.
        return [piece.strip("{}") for piece in pieces]

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        for title, rows in _sections(self, ctx).items():
            with formatter.section(title):
                formatter.write_dl(rows)
        if self.examples:
            with formatter.section("Examples"):
                # Without wrapping, so that a copied line runs.
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class HelpCommand(_Help, TyperCommand):
    """Command with this help."""


class HelpGroup(_Help, TyperGroup):
    """Command group with this help. Without arguments, the group prints the help to stdout, with exit code 2."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            # Typer expects help on stdout already, and discards the text of its own error.
            typer.echo(ctx.get_help())
            raise typer.Exit(2)
        return super().parse_args(ctx, args)


class Commands(typer.Typer):
    """Application or command group. The help of all its commands has this form."""

    def command(self, *name: Any, **options: Any) -> Callable[[Any], Any]:
        """Register a command, as `typer.Typer.command` does, by default of the class HelpCommand."""
        return super().command(*name, **{"cls": HelpCommand, **options})


def _sections(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return names and texts of arguments, options and subcommands, by the title of their section."""
    found: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        if not getattr(param, "hidden", False):
            title = "Arguments" if param.param_type_name == "argument" else "Options"
            found.setdefault(title, []).append((_names(param), " ".join(_text(param))))
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            first, *_ = each.help.split("\n\n")
            found.setdefault(each.rich_help_panel or "Commands", []).append((name, first))
    return found


def _names(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"{param.metavar}{'' if param.nargs == 1 else '...'}"
    names = " / ".join(", ".join(sorted(opts, key=len)) for opts in (param.opts, param.secondary_opts) if opts)
    return names if param.is_flag else f"{names} {param.metavar}"


def _text(param: Any) -> Iterator[str]:
    yield param.help or ""
    notes = []
    if param.envvar:
        notes.append(f"env var: {param.envvar}")
    if (default := _default(param)) is not None:
        notes.append(f"default: {default}")
    if param.required and param.param_type_name == "option":
        notes.append("required")
    if notes:
        yield f"[{'; '.join(notes)}]"


def _default(param: Any) -> str | None:
    if isinstance(param.show_default, str):
        return param.show_default
    if param.default is None or not param.show_default:
        return None
    if isinstance(param.default, bool):
        return ("on" if param.default else "off") if param.secondary_opts else None
    return f"{param.default:g}" if isinstance(param.default, float) else str(param.default)

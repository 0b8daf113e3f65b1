"""Commands available with Spark only, because they rewrite rows. Each prints the alternative, not `No such command`."""

from __future__ import annotations

from collections.abc import Callable

import typer

from slackwater.errors import UnsupportedFeature

_WITH_SPARK = {
    "optimize": "DeltaTable.forPath(spark, path).optimize().executeCompaction()",
    "reorg": "spark.sql('REORG TABLE delta.`path` APPLY (PURGE)')",
    "delete": "DeltaTable.forPath(spark, path).delete(condition)",
    "update": "DeltaTable.forPath(spark, path).update(condition, set)",
    "merge": "DeltaTable.forPath(spark, path).merge(source, condition)",
}


def register(app: typer.Typer) -> None:
    """Register hidden commands of `app` for operations with Spark. Help does not list them."""
    for name, instead in _WITH_SPARK.items():
        app.command(
            name=name,
            hidden=True,
            context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
        )(_refusal(name, instead))


def _refusal(name: str, instead: str) -> Callable[[typer.Context], None]:
    def command(_: typer.Context) -> None:
        raise UnsupportedFeature(f"{name} rewrites data files, which needs Spark. Use {instead}")

    return command

"""Commands that serve a commit owner: `slackwater serve`, and `slackwater token` for its access tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.common.help import Commands, HelpGroup
from slackwater.cli.common.render import print_done, print_human, print_note, print_rows, table
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of, storage_options
from slackwater.cli.lake.lake_argument import moment, refuse_new, require_lake
from slackwater.optional_dependencies import require

if TYPE_CHECKING:
    from slackwater.owner.served.server import Binding
    from slackwater.owner.served.tokens import Tokens

token_app = Commands(
    cls=HelpGroup,
    help="""Create, list and revoke access tokens of a served commit owner.

    Examples:
        slackwater token list --root /data/lake
    """,
    no_args_is_help=True,
)

_MS_PER_DAY = 86_400_000

_Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="SLACKWATER_DATABASE",
        help="Database of the commit owner: PostgreSQL or SQLite.",
        show_default="a file below the local lake",
    ),
]
_Root = Annotated[
    str | None, typer.Option("--root", metavar="LAKE", help="Directory of the lake, required without --database.")
]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.", show_default=False)]


def serve(
    root: Annotated[
        list[str],
        typer.Option(
            "--root",
            metavar="LAKE",
            help="Directory or URL of the lake. Repeatable: other allowed directories of tables follow the lake.",
            show_default=False,
        ),
    ],
    database: _Database = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Host name or address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port to listen on, 0 for any free port.")
    ] = 8080,
    certfile: Annotated[
        Path | None, typer.Option("--certfile", metavar="PEM", help="File with the certificate chain, for https.")
    ] = None,
    keyfile: Annotated[
        Path | None, typer.Option("--keyfile", metavar="PEM", help="File with the private key of the certificate.")
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url", metavar="URL", help="Address of the server for clients.", show_default="host and port"
        ),
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Accept requests without a token; only on a loopback address.")
    ] = False,
    public_metrics: Annotated[
        bool, typer.Option("--public-metrics", help="Serve /metrics without a token. It includes table names.")
    ] = False,
    max_body_mib: Annotated[
        int, typer.Option("--max-body-mib", min=1, metavar="MIB", help="Maximum size of a request in MiB.")
    ] = 32,
    max_connections: Annotated[
        int,
        typer.Option(
            "--max-connections", min=1, metavar="COUNT", help="Maximum number of connections. Idle ones close first."
        ),
    ] = 1000,
    max_connections_per_address: Annotated[
        int,
        typer.Option(
            "--max-connections-per-address",
            min=1,
            metavar="COUNT",
            help="Maximum number of connections from one client address, or from the proxy.",
        ),
    ] = 250,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate",
            min=0.01,
            metavar="REQUESTS",
            help="Maximum requests per second with one token.",
            show_default="no limit",
        ),
    ] = None,
    storage_option: StorageOption = None,
) -> None:
    """Serve the commit owner of a lake over HTTP, until SIGTERM or SIGINT.

    At shutdown, requests are completed and commits backfilled. The log is on stderr, one JSON object per line.

    Examples:
        slackwater serve --root /data/lake --host localhost --port 8443 --certfile /data/cert.pem --keyfile /data/key.pem
    """  # noqa: E501
    require("server", "a server")
    from slackwater.owner.embedded import EmbeddedOwner
    from slackwater.owner.served.client.addresses import is_in_the_clear
    from slackwater.owner.served.http.access_log import log_to
    from slackwater.owner.served.server import Binding, OwnerServer
    from slackwater.owner.served.settings import MIB, ServedSettings
    from slackwater.owner.served.tokens import Tokens

    options = storage_options(storage_option)
    max_body_bytes = max_body_mib * MIB
    settings = ServedSettings(
        max_body_bytes=max_body_bytes,
        max_bytes_in_flight=16 * max_body_bytes,
        max_connections=max_connections,
        max_connections_per_address=max_connections_per_address,
        rate_per_s=rate,
        public_metrics=public_metrics,
    )
    binding = Binding(host, port, _text(certfile), _text(keyfile))
    endpoint = _endpoint(binding, public_url)
    require_lake(root[0], database)
    with ExitStack() as stack:
        owner = EmbeddedOwner.open(
            root[0], database, options, root, when_new=lambda: refuse_new(root[0], options), endpoint=endpoint
        )
        stack.callback(owner.close)
        tokens = None if no_auth else Tokens(owner.database)
        server = OwnerServer(owner, tokens, binding, settings)
        if tokens is not None and not tokens.records():
            print_note(
                "there is no token yet, and no client can connect without one. Create one with slackwater token create"
            )
        # From here on the server closes the owner.
        stack.pop_all()
    if tokens is not None and is_in_the_clear(binding.url()):
        print_note("tokens are sent without encryption. Use --certfile and --keyfile, or a proxy with https")
    # Called after the server is bound: if the bind fails, the loggers of this process stay unchanged.
    log_to()
    server.run(lambda url: typer.echo(f"serving {owner.root_url} at {url}"))


@token_app.command()
def create(
    name: _Name,
    scope: Annotated[
        list[str],
        typer.Option(
            "--scope", metavar="SCOPE", help="read, commit or admin. Each includes the previous scopes. Repeatable."
        ),
    ],
    expires_days: Annotated[
        int | None,
        typer.Option(
            "--expires-days", min=1, metavar="DAYS", help="Lifetime of the token in days.", show_default="unlimited"
        ),
    ] = None,
    root: _Root = None,
    database: _Database = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Create a token and print it once: only its hash is stored.

    Examples:
        slackwater token create loader --scope commit --root /data/lake
    """
    form = form_of(as_json, as_csv)
    expires_ms = None if expires_days is None else time.time_ns() // 1_000_000 + expires_days * _MS_PER_DAY
    with _tokens(root, database) as tokens:
        made = tokens.create(name, scope, expires_ms)
    print_done(form, {"name": name, "token": made}, lambda: typer.echo(made))


@token_app.command("list")
def list_tokens(
    root: _Root = None,
    database: _Database = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the tokens, without their secrets.

    Examples:
        slackwater token list --root /data/lake
    """
    form = form_of(as_json, as_csv)
    with _tokens(root, database) as tokens:
        records = tokens.records()
    rows = [
        {
            "name": record.name,
            "scopes": sorted(scope.value for scope in record.scopes),
            "created": moment(record.created_ms),
            "expires": None if record.expires_ms is None else moment(record.expires_ms),
        }
        for record in records
    ]
    headers = ("name", "scopes", "created (UTC)", "expires (UTC)")
    print_rows(
        form,
        rows,
        ("name", "scopes", "created", "expires"),
        lambda: print_human(table(headers, [tuple(row.values()) for row in rows])),
    )


@token_app.command()
def revoke(
    name: _Name, root: _Root = None, database: _Database = None, as_json: AsJson = False, as_csv: AsCsv = False
) -> None:
    """Revoke a token. Running servers notice within seconds.

    Examples:
        slackwater token revoke loader --root /data/lake
    """
    form = form_of(as_json, as_csv)
    with _tokens(root, database) as tokens:
        tokens.revoke(name)
    print_done(form, {"name": name, "revoked": True})


@contextmanager
def _tokens(root: str | None, database: str | None) -> Iterator[Tokens]:
    if root is None and database is None:
        raise typer.BadParameter(
            "the owner of the tokens is missing. Use --root or --database", param_hint="--root / --database"
        )
    require("server", "a server")
    from slackwater.owner.database.database import Database
    from slackwater.owner.embedded import EmbeddedOwner
    from slackwater.owner.served.tokens import Tokens

    if database is not None:
        found = Database(database)
        try:
            yield Tokens(found)
        finally:
            found.close()
        return
    lake = root or ""
    require_lake(lake)
    owner = EmbeddedOwner.open(lake, when_new=lambda: refuse_new(lake, {}))
    try:
        yield Tokens(owner.database)
    finally:
        owner.close()


def _endpoint(binding: Binding, public_url: str | None) -> str:
    """Return the URL for clients of the server. Tables will name this URL."""
    from slackwater.owner.served.client.addresses import checked_url, is_unspecified

    if public_url is not None:
        return checked_url(public_url)
    if binding.port == 0 or is_unspecified(binding.host):
        raise typer.BadParameter(
            f"no client can connect to {binding.url()}. Set the address of the server for clients",
            param_hint="--public-url",
        )
    return binding.url()


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)

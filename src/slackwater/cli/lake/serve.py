"""Commands that serve a commit owner: `slackwater serve`, and `slackwater token` for its access tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
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
    from slackwater.owner.embedded import EmbeddedOwner
    from slackwater.owner.served.access.audit_trail import AuditTrail
    from slackwater.owner.served.access.identity_provider import IdentityProvider
    from slackwater.owner.served.server import Binding
    from slackwater.owner.served.tokens import Tokens

token_app = Commands(
    cls=HelpGroup,
    help="""Create, list, limit and revoke access tokens of a served commit owner.

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
_Grants = Annotated[
    list[str] | None,
    typer.Option(
        "--grant",
        metavar="GRANT",
        help="Limit the token: stock:read, sales.*:commit (a namespace), *:read (all tables). Repeatable.",
        show_default="all tables",
    ),
]


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
    give_credentials: Annotated[
        bool,
        typer.Option(
            "--give-credentials",
            help="Give the keys of the tables' store to clients of Unity Catalog with the scope read.",
        ),
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
    jwt_issuer: Annotated[
        str | None,
        typer.Option("--jwt-issuer", metavar="ISSUER", help="Accept tokens (JWT) of this identity provider too."),
    ] = None,
    jwt_audience: Annotated[
        str | None,
        typer.Option("--jwt-audience", metavar="AUDIENCE", help="Required audience of the identity provider's tokens."),
    ] = None,
    jwt_keys: Annotated[
        str | None,
        typer.Option("--jwt-keys", metavar="JWKS", help="File or https URL with the identity provider's public keys."),
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option(
            "--audit", metavar="FOLDER", help="Append a record of each request to the Delta table in this directory."
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
        credentials=_given_credentials(options) if give_credentials else {},
    )
    binding = Binding(host, port, _text(certfile), _text(keyfile))
    endpoint = _endpoint(binding, public_url)
    provider = _provider(jwt_issuer, jwt_audience, jwt_keys, no_auth)
    require_lake(root[0], database)
    with ExitStack() as stack:
        owner = EmbeddedOwner.open(
            root[0], database, options, root, when_new=lambda: refuse_new(root[0], options), endpoint=endpoint
        )
        stack.callback(owner.close)
        tokens = None if no_auth else Tokens(owner.database)
        trail = None if audit is None else _audit_trail(audit, owner, options)
        if trail is not None:
            stack.callback(trail.close)
        server = OwnerServer(owner, tokens, binding, settings, provider, trail)
        if tokens is not None and provider is None and not tokens.records():
            print_note(
                "there is no token yet, and no client can connect without one. Create one with slackwater token create"
            )
        # From here on the server closes the owner and the audit trail.
        stack.pop_all()
    if tokens is not None and is_in_the_clear(binding.url()):
        print_note("tokens are sent without encryption. Use --certfile and --keyfile, or a proxy with https")
    # Called after the server is bound: if the bind fails, the loggers of this process stay unchanged.
    log_to()
    server.run(lambda url: typer.echo(f"serving {owner.root_url} at {url}"))


def _given_credentials(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the keys in `options`, else in the environment. Raises BadParameter if there are none."""
    from slackwater.owner.api.catalog import CREDENTIALS

    folded = {key.lower(): value for key, value in options.items()}
    known = {key: folded.get(key) or os.environ.get(key.upper()) for key in CREDENTIALS}
    found = {key: value for key, value in known.items() if value}
    if not found:
        raise typer.BadParameter(
            f"it needs keys to give. Pass {', '.join(CREDENTIALS)} with --storage-option, or in the environment",
            param_hint="--give-credentials",
        )
    return found


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
    grant: _Grants = None,
    root: _Root = None,
    database: _Database = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Create a token and print it once: only its hash is stored.

    Examples:
        slackwater token create loader --scope commit --root /data/lake
        slackwater token create etl --scope commit --grant "sales.*:commit" --grant stock:read --root /data/lake
    """
    form = form_of(as_json, as_csv)
    expires_ms = None if expires_days is None else time.time_ns() // 1_000_000 + expires_days * _MS_PER_DAY
    with _tokens(root, database) as tokens:
        made = tokens.create(name, scope, expires_ms, grant)
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
            "grants": None if record.grants is None else [str(grant) for grant in record.grants],
        }
        for record in records
    ]
    headers = ("name", "scopes", "created (UTC)", "expires (UTC)", "grants")
    shown = [{**row, "grants": "all tables" if row["grants"] is None else row["grants"]} for row in rows]
    print_rows(
        form,
        rows,
        ("name", "scopes", "created", "expires", "grants"),
        lambda: print_human(table(headers, [tuple(row.values()) for row in shown])),
    )


@token_app.command("grant")
def replace_grants(
    name: _Name,
    grant: _Grants = None,
    all_tables: Annotated[
        bool, typer.Option("--all-tables", help="Remove the limit: the scopes of the token apply to all tables.")
    ] = False,
    root: _Root = None,
    database: _Database = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Replace the grants of a token. Running servers notice within seconds.

    Examples:
        slackwater token grant etl --grant "sales.*:commit" --root /data/lake
        slackwater token grant etl --all-tables --root /data/lake
    """
    form = form_of(as_json, as_csv)
    if (grant is None) != all_tables:
        raise typer.BadParameter("the grants are missing. Use either --grant or --all-tables", param_hint="--grant")
    with _tokens(root, database) as tokens:
        tokens.grant(name, grant)
    print_done(form, {"name": name, "grants": grant})


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


def _provider(issuer: str | None, audience: str | None, keys: str | None, no_auth: bool) -> IdentityProvider | None:
    """Return the identity provider of these options, None without the options."""
    if issuer is None and audience is None and keys is None:
        return None
    if not issuer or not audience or not keys or no_auth:
        raise typer.BadParameter(
            "an identity provider needs --jwt-issuer, --jwt-audience and --jwt-keys, without --no-auth",
            param_hint="--jwt-issuer",
        )
    from slackwater.owner.served.access.identity_provider import IdentityProvider, ProviderSettings

    return IdentityProvider(ProviderSettings(issuer, audience, keys))


def _audit_trail(folder: str, owner: EmbeddedOwner, options: Mapping[str, str]) -> AuditTrail:
    from slackwater.cli.lake.audit_table import AuditTable
    from slackwater.owner.served.access.audit_trail import AuditTrail

    return AuditTrail(AuditTable(folder, lambda: {t.table_id: t.name for t in owner.tables()}, options).append)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)

"""ASGI application of a served commit owner, and its OpenAPI document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from slackwater.errors import UnsupportedFeature
from slackwater.owner.api.actions import LOG_VALUE, LOG_VALUE_SCHEMA
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.field_types import GREATEST_VERSION
from slackwater.owner.api.wire_model import adapter
from slackwater.owner.served.access.audit_trail import AuditTrail
from slackwater.owner.served.access.granted_owner import TableNames
from slackwater.owner.served.admission import Admission, answered, guarded_route
from slackwater.owner.served.console.routes import add_pages
from slackwater.owner.served.http.access_log import log_request
from slackwater.owner.served.metrics import Metrics
from slackwater.owner.served.request_observer import ObserverMiddleware
from slackwater.owner.served.responses import RequestRejected
from slackwater.owner.served.routes import BEARER, SHOWN, Service, add_operations, add_tables
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.tokens import Tokens
from slackwater.owner.served.transaction_ownership import TransactionOwners
from slackwater.owner.served.transaction_routes import add_transactions
from slackwater.owner.served.unity.commits import add_unity_catalog
from slackwater.owner.served.unity.lifecycle import add_lifecycle
from slackwater.owner.served.unity.tables import add_catalog
from slackwater.owner.served.wire.calls import API_VERSION
from slackwater.owner.served.worker_pools import WorkerPools

if TYPE_CHECKING:
    from slackwater.owner.served.access.identity_provider import IdentityProvider

_METHOD_NOT_ALLOWED = 405

_TITLE = "Slackwater commit owner"


def create_app(
    owner: CommitOwner,
    tokens: Tokens | None,
    settings: ServedSettings | None = None,
    provider: IdentityProvider | None = None,
    audit: AuditTrail | None = None,
) -> FastAPI:
    """Return the application for `owner`. The caller closes `owner` and `audit`.

    Requests need a token of `tokens`, or of `provider`, with the route's scope. Without tokens, every client has full
    access if it reaches the server under a local host name. In this case bind to a loopback address. The OpenAPI
    document is at `/openapi.json`, its page at `/docs`, and the console at `/`.
    """
    chosen = settings or ServedSettings()
    metrics = Metrics(owner.tables, owner.activity)
    openers = TransactionOwners(None if tokens is None else tokens.database)
    service = Service(
        owner,
        TableNames(owner.tables),
        WorkerPools(chosen),
        metrics,
        chosen.public_metrics,
        openers,
        chosen.credentials,
    )
    # FastAPI's own pages would load scripts from other servers.
    app = FastAPI(title=_TITLE, version=str(API_VERSION), docs_url=None, redoc_url=None, redirect_slashes=False)
    # The application's own router, because FastAPI would build the routes of an included router a second time.
    router = app.router
    router.route_class = guarded_route(Admission(tokens, chosen, provider))
    add_tables(router, service)
    add_operations(router, service)
    add_transactions(router, service)
    add_unity_catalog(router, service)
    add_catalog(router, service)
    add_lifecycle(router, service)
    add_pages(router, lambda: _document(app))

    async def not_there(request: Request, error: Exception) -> Response:
        return answered(request, _not_there(router, request, error))

    app.add_exception_handler(HTTPException, not_there)
    observers = [metrics.observe, log_request]
    if audit is not None:
        metrics.add(audit)
        observers.append(audit.observe)
    app.add_middleware(ObserverMiddleware, observers=observers)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        components = document.setdefault("components", {})
        components["securitySchemes"] = {BEARER: {"type": "http", "scheme": "bearer"}}
        components["schemas"][LOG_VALUE] = LOG_VALUE_SCHEMA
        for kind in SHOWN:
            components["schemas"][kind.__name__] = adapter(kind).json_schema(mode="serialization")
        app.openapi_schema = _with_exact_bounds(document)
    return app.openapi_schema


def _with_exact_bounds(document: Any) -> Any:
    """Return `document` with the exact greatest version, because a float cannot represent it."""
    if isinstance(document, list):
        return [_with_exact_bounds(item) for item in document]
    if not isinstance(document, dict):
        return document
    return {
        key: GREATEST_VERSION if key == "maximum" and value == float(GREATEST_VERSION) else _with_exact_bounds(value)
        for key, value in document.items()
    }


def _not_there(router: APIRouter, request: Request, error: Exception) -> Exception:
    """Return the error for an unknown route or method. A newer version may have the route."""
    if not isinstance(error, HTTPException):
        return error
    # The message omits the path, because it may contain anything.
    message = f"this commit owner has no such route: {error.detail}. Compare the versions of client and server"
    headers = None
    if error.status_code == _METHOD_NOT_ALLOWED:
        path = request.scope["path"]
        fitting = [route for route in router.routes if isinstance(route, APIRoute) and route.path_regex.match(path)]
        headers = {"Allow": ", ".join(sorted({method for route in fitting for method in route.methods or ()}))}
    return RequestRejected(error.status_code, UnsupportedFeature(message), headers)

"""The pages of a served owner: `/` and `/docs`. Neither has data of the owner, so neither asks for a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from slackwater.owner.served.console.console import console_page
from slackwater.owner.served.console.reference import reference_page

# What may run and load a page says itself; this is what only headers can say.
_HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def add_pages(router: APIRouter, document: Callable[[], Mapping[str, Any]]) -> None:
    """Add the pages; `document` is the OpenAPI document."""
    console = cache(console_page)
    reference = cache(lambda: reference_page(document()))

    @router.get("/", include_in_schema=False)
    async def get_console() -> Response:
        """The console: look at the owner."""
        return HTMLResponse(console(), headers=_HEADERS)

    @router.get("/docs", include_in_schema=False)
    async def get_reference() -> Response:
        """The interface, for people."""
        return HTMLResponse(reference(), headers=_HEADERS)

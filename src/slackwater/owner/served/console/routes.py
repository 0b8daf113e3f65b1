"""Pages of a served owner: `/` and `/docs`. They contain no data of the owner, so they need no token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from slackwater.owner.served.console.console import console_page
from slackwater.owner.served.console.reference import reference_page

# The page has its own policy for scripts and resources. These rules are possible in headers only.
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
    """Add the pages. `document` returns the OpenAPI document."""
    console = cache(console_page)
    reference = cache(lambda: reference_page(document()))

    @router.get("/", include_in_schema=False)
    async def get_console() -> Response:
        """Return the console."""
        return HTMLResponse(console(), headers=_HEADERS)

    @router.get("/docs", include_in_schema=False)
    async def get_reference() -> Response:
        """Return the reference of the interface."""
        return HTMLResponse(reference(), headers=_HEADERS)

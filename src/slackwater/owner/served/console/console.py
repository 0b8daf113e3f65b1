"""Console at `/`: a page without data. Its script queries the routes of the owner with the user's token.

Source: docs/commit-owner.md "Serving"; docs/security.md.
"""

from __future__ import annotations

from importlib import resources

from slackwater.html.element import Child, Markup, element, fragment
from slackwater.html.page import page

TITLE = "Slackwater commit owner"

_RULES = (
    (".sw-top", "display:flex;flex-wrap:wrap;align-items:center;gap:6px 14px;"),
    (".sw-top h1", "margin:0;flex:1 1 260px;"),
    (".sw-panel", "border:1px solid var(--sw-line);border-radius:10px;padding:12px 16px;margin:16px 0 0;min-width:0;"),
    (".sw-panel h2", "margin:0 0 4px;"),
    (".sw-panel table", "width:100%;"),
    (".sw-panel p", "margin:4px 0;"),
    (
        ".sw-pair",
        "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:0 16px;align-items:start;",
    ),
    (".sw-pair .sw-scroll,.sw-panel .sw-scroll", "max-height:420px;overflow:auto;"),
    ("thead th", "position:sticky;top:0;background:var(--sw-ground);"),
    ("td code", "white-space:nowrap;"),
    ("#metrics td code", "white-space:normal;"),
    ("button", "cursor:pointer;"),
    (".sw-form", "display:flex;flex-wrap:wrap;gap:8px;align-items:center;margin:8px 0;"),
    (".sw-form input", "flex:1 1 220px;max-width:460px;min-width:0;"),
    ("[hidden]", "display:none;"),
    (".sw-lane", "stroke:var(--sw-line);stroke-width:1;"),
    (".sw-across", "stroke:var(--sw-accent);stroke-width:1.5;opacity:.65;"),
    (".sw-dot", "fill:var(--sw-mark);stroke:var(--sw-ground);stroke-width:1;"),
    (".sw-dot-waiting", "fill:var(--sw-warn);stroke:var(--sw-ground);stroke-width:1;"),
    (".sw-label", "fill:var(--sw-text);font-size:12px;"),
    (".sw-tick", "fill:var(--sw-muted);font-size:11px;"),
    (".sw-notice", "border-radius:8px;padding:8px 12px;margin:12px 0 0;background:var(--sw-bad-soft);"),
)


def console_page() -> str:
    """Return the document, independent of the owner's state."""
    script = resources.files(__package__).joinpath("console.js").read_text(encoding="utf-8")
    return page(TITLE, _top(), _token(), _panels(), rules=_RULES, script=script, asks_its_server=True)


def _top() -> Markup:
    choices = [
        element("option", text, value=seconds, selected=seconds == "5")
        for seconds, text in (("2", "every 2 s"), ("5", "every 5 s"), ("30", "every 30 s"), ("0", "paused"))
    ]
    return fragment(
        element(
            "header",
            element("h1", TITLE),
            element("span", "loading…", id="state", class_="sw-badge", role="status"),
            element("select", *choices, id="every", aria_label="Refresh interval"),
            element("button", "Refresh", id="now", type="button"),
            element("a", "API", href="docs"),
            class_="sw-top",
        ),
        element("p", id="about", class_="sw-muted sw-small"),
        element("noscript", element("p", "This page needs JavaScript, which requests the data from the owner.")),
        element("p", id="notice", class_="sw-notice", role="alert", hidden=True),
    )


def _token() -> Markup:
    note = "The token stays in this tab, and is sent only to this server. The scope read is sufficient."
    field = element(
        "input", id="token", type="password", autocomplete="off", spellcheck="false", aria_label="Token", required=True
    )
    form = element("form", field, element("button", "Open", type="submit"), id="ask", class_="sw-form")
    return fragment(
        element(
            "section",
            element("h2", "This owner requires a token"),
            form,
            element("p", note, class_="sw-note"),
            id="gate",
            class_="sw-panel",
            hidden=True,
        )
    )


def _panels() -> Markup:
    return element(
        "div",
        element("dl", id="facts", class_="sw-facts"),
        _panel("Tables", "tables"),
        _panel("Commits", "timeline", element("div", id="commits")),
        _pair(_panel("Open transactions", "transactions"), _panel("Waiting transactions", "waits")),
        _pair(_panel("Locks", "locks"), _panel("Reserved timestamps", "promises")),
        _pair(_panel("Read timestamp table", "reads"), _panel("Requests", "metrics")),
        element(
            "p",
            "Times are in UTC, by the owner's clock. ",
            element("button", "Remove the token", id="forget", type="button", hidden=True),
            class_="sw-note",
        ),
        id="panels",
        hidden=True,
    )


def _pair(*panels: Markup) -> Markup:
    return element("div", *panels, class_="sw-pair")


def _panel(title: str, name: str, *more: Child) -> Markup:
    return element("section", element("h2", title), element("div", id=name), *more, class_="sw-panel")

"""A standalone HTML document in one file, opened from a disk or served, without external resources."""

from __future__ import annotations

import base64
import hashlib

from slackwater.html.element import Child, element
from slackwater.html.theme import SCOPE, css, scoped

_BODY = f"body.{SCOPE}{{margin:0;min-height:100vh;background:var(--sw-ground)}}"
_PAGE_RULES = (
    (".sw-page", "max-width:1180px;margin:0 auto;padding:24px 20px 48px;"),
    ("h1", "font-size:22px;line-height:1.25;margin:0 0 6px;font-weight:650;"),
    ("h2", "font-size:16px;line-height:1.3;margin:28px 0 6px;font-weight:650;"),
    ("h3", "font-size:14px;line-height:1.3;margin:18px 0 4px;font-weight:650;"),
    (
        "button,input,select",
        "font:inherit;color:inherit;background:var(--sw-surface);border:1px solid var(--sw-line);border-radius:6px;"
        "padding:3px 10px;",
    ),
    ("input[type=range]", "padding:0;border:0;background:none;accent-color:var(--sw-mark);"),
    (
        "button:focus-visible,input:focus-visible,select:focus-visible",
        "outline:2px solid var(--sw-mark);outline-offset:2px;",
    ),
)


def page(
    title: str, *body: Child, rules: tuple[tuple[str, str], ...] = (), script: str = "", asks_its_server: bool = False
) -> str:
    """Return the HTML document `title` with `body` in the theme. Texts are escaped.

    `rules` are pairs of a selector and its declarations, below the theme's class. `script` is the page's own script,
    never user input; data for the script belongs into `data_…` attributes. The page's policy blocks any other script or
    style and all loading. With `asks_its_server` the script may send requests to the page's server. Raises ValueError
    if rules or script would end their element.

    >>> slackwater.html_page("Stock", slackwater.html_table(["sku"], [["A1"]])).startswith("<!DOCTYPE html>")
    True
    """
    sheet = "\n".join([css(), _BODY, scoped(_PAGE_RULES), scoped(rules)])
    for text, what in ((sheet, "style"), (script, "script")):
        if f"</{what}" in text.lower() or "<!--" in text:
            raise ValueError(f"the text of a <{what}> must not end it")
    policy = "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            # Cards contain their own style sheet.
            f"style-src {_hash(sheet)} {_hash(css())}",
            *([f"script-src {_hash(script)}"] if script else []),
            *(["connect-src 'self'"] if asks_its_server else []),
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
    ]
    code = f"<script>{script}</script>\n" if script else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{"".join(map(str, head))}\n<style>{sheet}</style>\n</head>\n'
        f'<body class="{SCOPE}">\n{element("main", *body, class_="sw-page")}\n{code}</body>\n</html>\n'
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

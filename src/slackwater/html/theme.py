"""Theme: one style sheet, light and dark, with all rules below the class `slackwater`.

Colours are custom properties (`--sw-text`, …). Dark mode follows the system (`prefers-color-scheme`) unless a notebook
declares its mode: Jupyter by `data-jp-theme-light`, VS Code by a class of the body, Colab by `theme`. Text has at least
the contrast of WCAG 2 AA (4.5 : 1) on each of its surfaces. Nothing is loaded; fonts are the system's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SCOPE = "slackwater"

LIGHT: Mapping[str, str] = MappingProxyType(
    {
        "ground": "#ffffff",
        "surface": "#f4f7f8",
        "line": "#d5dfe3",
        "text": "#14252c",
        "muted": "#536870",
        "accent": "#0a6175",
        "accent-soft": "#dceff3",
        "good": "#1a6b42",
        "good-soft": "#e0f3e8",
        "warn": "#7d4f00",
        "warn-soft": "#fcf0d8",
        "bad": "#a8231c",
        "bad-soft": "#fce6e4",
        "mark": "#2b94ab",
        "track": "#e0e8eb",
    }
)
DARK: Mapping[str, str] = MappingProxyType(
    {
        "ground": "#10181c",
        "surface": "#182329",
        "line": "#2c3b42",
        "text": "#e4edf0",
        "muted": "#9cb0b8",
        "accent": "#6bcfe2",
        "accent-soft": "#15363f",
        "good": "#71d39c",
        "good-soft": "#163526",
        "warn": "#ebbd66",
        "warn-soft": "#3a2d10",
        "bad": "#ff9d94",
        "bad-soft": "#431f1d",
        "mark": "#3fa9c0",
        "track": "#24323a",
    }
)
# Text colours with their backgrounds.
READABLE = tuple(
    [(text, ground) for text in ("text", "muted", "accent", "good", "warn", "bad") for ground in ("ground", "surface")]
    + [(kind, f"{kind}-soft") for kind in ("accent", "good", "warn", "bad")]
)

FILLS = ("accent", "good", "warn", "bad", "muted", "line", "mark")
"""Colours for parts of bars."""

_LIGHT_SIGNALS = (
    '[data-jp-theme-light="true"]',
    ".vscode-light",
    "[theme=light]",
    "[data-theme=light]",
    "body.notebook_app",
)
_DARK_SIGNALS = (
    '[data-jp-theme-light="false"]',
    ".vscode-dark",
    ".vscode-high-contrast:not(.vscode-high-contrast-light)",
    "[theme=dark]",
    "[data-theme=dark]",
)
_SANS = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","Noto Sans","Liberation Sans",Arial,sans-serif'
_MONO = 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace'

# Notebooks have rules for tables and lists; a doubled class overrides them.
_RULES = (
    ("", f"box-sizing:border-box;color:var(--sw-text);font:14px/1.45 {_SANS};font-variant-numeric:tabular-nums;"),
    ("*", "box-sizing:border-box;"),
    ("a", "color:var(--sw-accent);text-decoration:underline;text-underline-offset:2px;"),
    (
        "code",
        f"font:0.93em {_MONO};color:inherit;background:none;border:0;padding:0;white-space:pre-wrap;"
        "overflow-wrap:anywhere;",
    ),
    (
        ".sw-card",
        "background:var(--sw-ground);border:1px solid var(--sw-line);border-radius:10px;padding:14px 18px 12px;"
        "margin:4px 0;max-width:920px;overflow-wrap:anywhere;",
    ),
    (".sw-head", "display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 10px;margin:0 0 2px;"),
    (".sw-kind", "font-size:12px;font-weight:600;letter-spacing:.02em;color:var(--sw-accent);white-space:nowrap;"),
    (".sw-title", "font-size:16px;font-weight:600;margin:0;line-height:1.3;"),
    (".sw-muted", "color:var(--sw-muted);"),
    (".sw-small", "font-size:12.5px;"),
    (".sw-number", "text-align:right;white-space:nowrap;"),
    (".sw-nowrap", "white-space:nowrap;"),
    (
        ".sw-badge",
        "display:inline-block;font-size:12px;line-height:1.5;padding:0 7px;border-radius:99px;white-space:nowrap;"
        "background:var(--sw-surface);color:var(--sw-muted);border:1px solid var(--sw-line);",
    ),
    *(
        (f".sw-badge.sw-{kind}", f"background:var(--sw-{kind}-soft);color:var(--sw-{kind});border-color:transparent;")
        for kind in ("accent", "good", "warn", "bad")
    ),
    *((f".sw-{kind}", f"color:var(--sw-{kind});") for kind in ("accent", "good", "warn", "bad")),
    (".sw-badges", "display:flex;flex-wrap:wrap;gap:4px 6px;"),
    (".sw-facts", "display:flex;flex-wrap:wrap;gap:8px 28px;margin:10px 0 2px;padding:0;"),
    (".sw-fact", "margin:0;"),
    (".sw-fact dt", "font-size:12px;font-weight:400;color:var(--sw-muted);margin:0;padding:0;float:none;width:auto;"),
    (
        ".sw-fact dd",
        "font-size:15px;font-weight:600;margin:0;padding:0;float:none;width:auto;overflow-wrap:normal;",
    ),
    (".sw-fact dd .sw-muted", "font-size:13px;font-weight:400;"),
    (".sw-pairs", "display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 16px;margin:6px 0;padding:0;"),
    (
        ".sw-pairs dt",
        "font-weight:400;color:var(--sw-muted);margin:0;padding:0;float:none;width:auto;overflow-wrap:anywhere;",
    ),
    (".sw-pairs dd", "margin:0;padding:0;float:none;width:auto;"),
    (".sw-scroll", "overflow-x:auto;"),
    (
        "table",
        "border-collapse:collapse;border:0;margin:6px 0;width:auto;min-width:0;font-size:13px;table-layout:auto;"
        "color:inherit;background:none;",
    ),
    ("caption", "text-align:left;color:var(--sw-muted);font-size:12px;padding:0 0 2px;"),
    ("tr,tbody tr:nth-child(odd),tbody tr:nth-child(even)", "background:none;border:0;"),
    (
        "th",
        "text-align:left;font-weight:600;font-size:12px;color:var(--sw-muted);padding:3px 18px 3px 0;border:0;"
        "border-bottom:1px solid var(--sw-line);white-space:nowrap;vertical-align:bottom;background:none;"
        "max-width:none;",
    ),
    (
        "td",
        "text-align:left;padding:3px 18px 3px 0;border:0;border-bottom:1px solid var(--sw-line);vertical-align:top;"
        "background:none;max-width:34em;white-space:normal;overflow-wrap:break-word;",
    ),
    ("tbody tr:last-child td", "border-bottom:0;"),
    ("th:last-child,td:last-child", "padding-right:0;"),
    ("th.sw-number,td.sw-number", "text-align:right;white-space:nowrap;"),
    ("td.sw-nowrap", "white-space:nowrap;"),
    ("details", "margin:8px 0 0;padding:0;border:0;background:none;"),
    ("summary", "cursor:pointer;font-weight:600;font-size:13px;padding:1px 0;color:var(--sw-text);background:none;"),
    ("summary:focus-visible,a:focus-visible", "outline:2px solid var(--sw-mark);outline-offset:2px;border-radius:3px;"),
    ("p", "margin:6px 0;"),
    (".sw-note", "font-size:12px;color:var(--sw-muted);margin:8px 0 0;"),
    ("svg", "vertical-align:middle;max-width:100%;overflow:visible;"),
    (".sw-progress", "display:flex;flex-wrap:wrap;align-items:center;gap:2px 10px;font-size:13px;padding:2px 0;"),
    (".sw-track", "fill:var(--sw-track);"),
    (".sw-mark", "fill:var(--sw-mark);"),
    *((f".sw-fill-{kind}", f"fill:var(--sw-{kind});") for kind in FILLS),
)


def css() -> str:
    """Return the style sheet: colours and rules, all below `.slackwater`."""
    root = f".{SCOPE}"
    light, dark = _properties(LIGHT), _properties(DARK)
    colours = [
        f"{root}{{{light}}}",
        f"@media (prefers-color-scheme:dark){{{root}{{{dark}}}}}",
        f"{_below(_LIGHT_SIGNALS, root)}{{{light}}}",
        f"{_below(_DARK_SIGNALS, root)}{{{dark}}}",
    ]
    return "\n".join([*colours, scoped(_RULES)])


def scoped(rules: tuple[tuple[str, str], ...]) -> str:
    """Return rules, pairs of selector and declarations, below the class. An empty selector is the class itself."""
    return "\n".join(f"{_below_class(selector)}{{{declarations.rstrip(';')}}}" for selector, declarations in rules)


def _below_class(selector: str) -> str:
    twice = f".{SCOPE}.{SCOPE}"
    return ",".join(f"{twice} {part}".rstrip() for part in selector.split(","))


def _below(signals: tuple[str, ...], root: str) -> str:
    return ",".join(f"{signal} {root}" for signal in signals)


def _properties(colours: Mapping[str, str]) -> str:
    scheme = "light" if colours is LIGHT else "dark"
    return f"color-scheme:{scheme};" + ";".join(f"--sw-{name}:{value}" for name, value in colours.items())

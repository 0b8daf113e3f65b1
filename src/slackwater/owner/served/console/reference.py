"""Reference page at `/docs`, generated from the owner's OpenAPI document. Needs no script.

Source: OpenAPI 3.1, JSON Schema 2020-12, as far as FastAPI and pydantic write them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackwater.html.components import badge, code, disclosure, muted, table
from slackwater.html.element import Child, Markup, element, fragment
from slackwater.html.page import page

_RULES = (
    ("h2 code", "font-size:15px;font-weight:600;"),
    (".sw-op", "border:1px solid var(--sw-line);border-radius:10px;padding:10px 16px;margin:12px 0;min-width:0;"),
    (".sw-op h2", "margin:0;"),
    (":target", "border-color:var(--sw-mark);"),
    ("nav ul", "columns:2 320px;margin:8px 0;padding:0;list-style:none;"),
    ("nav li", "overflow-wrap:anywhere;"),
)
_SCOPES = {"read": "good", "commit": "accent", "admin": "warn"}
_LONGEST_ENUM = 12


def reference_page(document: Mapping[str, Any]) -> str:
    """Return the page for `document`, an OpenAPI document."""
    operations = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    info = document["info"]
    title = f"{info['title']}: API"
    links = [
        element("li", element("a", f"{method.upper()} {path}", href=f"#{operation['operationId']}"))
        for method, path, operation in operations
    ]
    schemas = document.get("components", {}).get("schemas", {})
    return page(
        title,
        element("h1", title),
        element(
            "p",
            f"Version {info['version']}. A request sends its token as ",
            code("Authorization: Bearer …"),
            ". Each scope includes the scopes before it: read, commit, admin. For programs: ",
            element("a", "openapi.json", href="openapi.json"),
            ". ",
            element("a", "Console", href="./"),
        ),
        element("nav", element("ul", links), aria_label="Requests"),
        [_operation(*each) for each in operations],
        element("h2", "Values"),
        [_schema(name, schema) for name, schema in sorted(schemas.items())],
        rules=_RULES,
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Markup:
    scope = operation.get("x-required-scope")
    shown = badge(f"scope {scope}", _SCOPES[scope]) if scope else badge("no token")  # type: ignore[arg-type]
    parameters = [
        (
            code(each["name"]),
            f"{each['in']}{'' if each.get('required') else ', optional'}",
            _type(each.get("schema", {})),
            each.get("description") or each.get("schema", {}).get("description", ""),
        )
        for each in operation.get("parameters", ())
        if each["in"] in ("path", "query")
    ]
    answers = [
        (status, _content(answer), answer.get("description", ""))
        for status, answer in sorted(operation.get("responses", {}).items())
    ]
    body = operation.get("requestBody")
    return element(
        "section",
        element("h2", code(f"{method.upper()} {path}"), " ", shown),
        element("p", operation.get("description") or operation.get("summary", "")),
        table(["parameter", "where", "type", ""], parameters) if parameters else None,
        element("p", "Body: ", _content(body)) if body else None,
        disclosure("Answers", table(["status", "value", ""], answers)),
        id=operation["operationId"],
        class_="sw-op",
    )


def _schema(name: str, schema: Mapping[str, Any]) -> Markup:
    required = set(schema.get("required", ()))
    rows = [
        (
            code(key),
            fragment(_type(value), _default(value)),
            "" if key in required else muted("optional"),
            value.get("description", ""),
        )
        for key, value in schema.get("properties", {}).items()
    ]
    fields: Child = table(["field", "type", "", ""], rows) if rows else element("p", _type(schema))
    return element(
        "section",
        element("h2", code(name)),
        element("p", schema.get("description", "")),
        fields,
        id=f"value-{name}",
        class_="sw-op",
    )


def _content(holder: Mapping[str, Any]) -> Markup:
    kinds = [_type(each.get("schema", {})) for each in holder.get("content", {}).values()]
    return fragment(*kinds) if kinds else fragment()


def _default(schema: Mapping[str, Any]) -> Child:
    if "default" not in schema:
        return None
    return muted(f", by default {schema['default']!r}" if schema["default"] is not None else ", by default null")


def _type(schema: Mapping[str, Any]) -> Markup:
    """Return a short description of a value's type. Other values of the document are links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return element("a", name, href=f"#value-{name}")
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _joined([_type(each) for each in schema[key]], " or ")
    if "const" in schema:
        return code(repr(schema["const"]))
    if "enum" in schema:
        shown = [code(str(each)) for each in schema["enum"][:_LONGEST_ENUM]]
        return fragment(_joined(shown, ", "), ", …" if len(schema["enum"]) > _LONGEST_ENUM else None)
    kind = schema.get("type")
    if kind == "array":
        return fragment("array of ", _type(schema.get("items", {})))
    if kind == "object":
        values = schema.get("additionalProperties")
        return fragment("object of ", _type(values)) if isinstance(values, Mapping) and values else fragment("object")
    if isinstance(kind, list):
        return fragment(" or ".join(kind))
    if kind is None:
        return fragment("anything")
    return fragment(kind, _bounds(schema))


def _bounds(schema: Mapping[str, Any]) -> Child:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", from {low}"
    return None if high is None else f", up to {high}"


def _joined(parts: list[Markup], between: str) -> Markup:
    return fragment(*[fragment(between if index else None, part) for index, part in enumerate(parts)])

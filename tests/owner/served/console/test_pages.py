"""The console and the page of the interface, as they are sent: without data, complete, and able to do nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from slackwater.owner.database.database import Database
from slackwater.owner.served.app import create_app
from slackwater.owner.served.console.reference import reference_page
from slackwater.owner.served.tokens import Tokens
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, taken

PAGES = ("/", "/docs")


class Found(HTMLParser):
    """What a page is made of: ids, links, and what would be loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.policy = ""
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
        self.loaded += [value for name, value in given.items() if name in ("src", "srcset", "data", "action")]
        self.loaded += [name for name in given if name.startswith("on") or name == "style"]
        if given.get("http-equiv", "").lower() == "content-security-policy":
            self.policy = given["content"]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_loads_nothing_and_lets_nothing_else_run(path: str) -> None:
    answer = AppClient(create_app(MemoryOwner(), None)).get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    found = Found(answer.text)
    rules = dict(rule.split(" ", 1) for rule in found.policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in found.policy
    assert set(rules) <= {
        "default-src", "img-src", "style-src", "script-src", "connect-src", "base-uri", "form-action"
    }  # fmt: skip
    assert rules.get("connect-src", "'self'") == "'self'"
    assert found.loaded == []
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", answer.text)
    assert ("script" in found.tags) == (path == "/")
    assert answer.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_the_same_for_everybody_and_has_no_data(path: str, tmp_path: Path) -> None:
    owner = MemoryOwner()
    taken(owner, "secret_table")
    database = Database(f"sqlite:///{tmp_path}/owner.db")
    guarded = AppClient(create_app(owner, Tokens(database))).get(path)
    database.close()
    assert guarded.status_code == 200
    assert "secret_table" not in guarded.text
    assert guarded.text == AppClient(create_app(MemoryOwner(), None)).get(path).text


def test_the_script_never_makes_html_of_text_and_keeps_the_token_for_the_tab() -> None:
    text = AppClient(create_app(MemoryOwner(), None)).get("/").text
    script = text[text.index("<script>") : text.index("</script>")]
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        ".cookie",
    ):
        assert forbidden not in script
    assert "localStorage" not in script
    assert "sessionStorage" in script


def test_the_interface_shows_every_request_and_value_and_its_links_lead_somewhere() -> None:
    app = create_app(MemoryOwner(), None)
    document = app.openapi()
    text = AppClient(app).get("/docs").text
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in text
            assert f'id="{operation["operationId"]}"' in text
    for name in document["components"]["schemas"]:
        assert f'id="value-{name}"' in text
    found = Found(text)
    assert len(found.ids) == len(set(found.ids))
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert {link for link in found.links if not link.startswith("#")} == {"openapi.json", "./"}
    assert not {"/", "/docs"} & set(document["paths"])


def test_what_a_document_says_is_text() -> None:
    attack = "<img src=x onerror=alert(1)>"
    page = reference_page(
        {
            "info": {"title": attack, "version": "1"},
            "paths": {"/x": {"get": {"operationId": "x", "description": attack, "responses": {}}}},
            "components": {"schemas": {"X": {"description": attack, "properties": {attack: {"type": "string"}}}}},
        }
    )
    assert "<img" not in page
    assert "&lt;img" in page

"""The console in headless Chromium, asked for by `--browser`: what people see of an owner that is at work."""

from __future__ import annotations

import base64
import hashlib
import html
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import HTMLResponse

from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served import server
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.app import create_app
from slackwater.owner.served.console.console import console_page
from slackwater.owner.served.tokens import Tokens
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from tests.owner.served.serving import served

pytestmark = pytest.mark.browser

SCHEMA = StructType((StructField("id", LONG),))
ATTACK = "<script>document.title='attacked'</script><img src=x onerror=\"document.title='attacked'\">"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> str:
    """The browser's command."""
    found = next((path for name in CHROMIUM if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(f"--browser needs one of {', '.join(CHROMIUM)} on the PATH: apt-get install chromium")
    return found


def _run(browser: str, profile: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        f"--user-data-dir={profile}", "--enable-logging=stderr", "--hide-scrollbars", "--virtual-time-budget=8000",
        *options, url,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def _seen(browser: str, profile: Path, url: str) -> str:
    """The page once its script has done its work. Nothing was refused by its policy, and nothing failed."""
    done = _run(browser, profile, url, "--dump-dom")
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line and "401 (Unauthorized)" not in line]
    assert complaints == []
    return done.stdout


def _text(dom: str) -> str:
    body = re.sub(r"<(script|style)>.*?</\1>", "", dom, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


def _panel(dom: str, name: str) -> str:
    found = re.search(rf'<div id="{name}">(.*?)</section>', dom, re.DOTALL)
    assert found is not None
    return _text(found[1])


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[EmbeddedOwner]:
    """An owner with commits of somebody with an evil name, a transaction that holds a lock and one that waits."""
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    lake = LogLake(owner, owner.root_url)
    lake._create_log("orders", SCHEMA)
    lake._create_log("stock", SCHEMA)
    with lake.transaction() as tx:
        for name in ("orders", "stock"):
            work = tx.log(name)
            work.set_transaction("job", 1)
            work.commit(f"MERGE {ATTACK}", metrics={"numOutputRows": "1204", ATTACK: ATTACK}, user_name=f"Ada {ATTACK}")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lake.transaction(control="locking") as tx:
            tx.lock("orders", exclusive=True)
            held.set()
            done.wait()

    def wait() -> None:
        with lake.transaction(control="locking", lock_timeout_s=120) as tx:
            tx.lock("orders")

    threads = [threading.Thread(target=hold), threading.Thread(target=wait)]
    threads[0].start()
    held.wait()
    threads[1].start()
    while not any(lock.wanted for lock in owner.activity().locks):
        done.wait(0.01)
    yield owner
    done.set()
    for thread in threads:
        thread.join()


def test_the_console_shows_an_owner_at_work_and_what_it_is_told_is_text(
    browser: str, at_work: EmbeddedOwner, tmp_path: Path
) -> None:
    short = {lock.transaction for lock in at_work.activity().locks if lock.held}
    (holder,) = short
    with served(_Kept(at_work)) as url:
        dom = _seen(browser, tmp_path / "profile", url)
    assert "<title>Slackwater commit owner</title>" in dom
    assert "<img" not in dom
    assert "orders 1 0 1" in _panel(dom, "tables")
    commits = _panel(dom, "timeline")
    assert f"MERGE {ATTACK}" in commits
    assert f"Ada {ATTACK}" in commits
    assert "1,204" in commits
    assert "not backfilled" in commits
    assert dom.count('class="sw-across"') == 1
    assert f"{holder} open" in _panel(dom, "transactions")
    assert f"S orders whole table {holder}" in _panel(dom, "waits")
    assert "X" in _panel(dom, "locks")
    assert "of 4,096 slots" in _panel(dom, "reads")
    assert "GET /v1/activity" in _panel(dom, "metrics")


class _Kept:
    """An owner that whoever serves it does not close."""

    def __init__(self, owner: EmbeddedOwner) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name)

    def close(self) -> None:
        """Stay open."""


def test_without_a_token_nothing_is_shown_and_with_one_that_is_typed_everything(
    browser: str, at_work: EmbeddedOwner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens(at_work.database)
    token = tokens.create("looker", [Scope.READ])

    _with_pages(monkeypatch, {"/typed": _typing(token), "/mistyped": _typing(f"{token}x")})
    with served(_Kept(at_work), tokens) as url:
        locked = _seen(browser, tmp_path / "one", url)
        opened = _seen(browser, tmp_path / "two", f"{url}/typed")
        refused = _seen(browser, tmp_path / "three", f"{url}/mistyped")
    for dom in (locked, refused):
        assert "This owner requires a token" in _text(dom)
        assert re.search(r'<section id="gate"[^>]*hidden', dom) is None
        assert re.search(r'<div id="panels"[^>]*hidden', dom)
        assert "orders" not in _text(dom)
    assert "unknown, revoked or expired" in _text(refused)
    assert re.search(r'<section id="gate"[^>]*hidden', opened)
    assert "orders 1 0 1" in _panel(opened, "tables")
    assert token not in opened


def _typing(token: str) -> str:
    return f"""setTimeout(() => {{
        document.getElementById('token').value = {token!r};
        document.querySelector('#ask button').click();
    }}, 1500);"""


_MEASURES = """setTimeout(() => {
    document.body.dataset.beyond = document.documentElement.scrollWidth - document.documentElement.clientWidth;
}, 2500);"""


def _with_pages(monkeypatch: pytest.MonkeyPatch, scripts: Mapping[str, str]) -> None:
    """Serve at these paths too the console in which somebody does what a script says: that alone its policy lets in."""

    def page_with(script: str) -> Callable[[], Awaitable[HTMLResponse]]:
        script = f"{script}document.currentScript.remove();"
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        page = console_page().replace("script-src ", f"script-src &#x27;sha256-{digest}&#x27; ", 1)
        page = page.replace("</body>", f"<script>{script}</script></body>")

        async def get() -> HTMLResponse:
            return HTMLResponse(page)

        return get

    def with_pages(*given: Any) -> Any:
        app = create_app(*given)
        for path, script in scripts.items():
            app.get(path)(page_with(script))
        return app

    monkeypatch.setattr(server, "create_app", with_pages)


@pytest.mark.parametrize("width", [1280, 500])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(
    browser: str, at_work: EmbeddedOwner, tmp_path: Path, width: int, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _with_pages(monkeypatch, {"/measured": _MEASURES})
    picture = Path(os.environ.get("SLACKWATER_PICTURES", tmp_path)) / f"console-{width}-{scheme}.png"
    options = [f"--window-size={width},1800"]
    options += ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    with served(_Kept(at_work)) as url:
        dom = _run(browser, tmp_path / "profile", f"{url}/measured", *options, "--dump-dom").stdout
        _run(browser, tmp_path / "profile", url, *options, f"--screenshot={picture}")
    assert 'data-beyond="0"' in dom
    assert picture.stat().st_size > 10_000

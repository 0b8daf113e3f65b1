"""The guide that runs an owner: its lines run as they stand, its files say what there is."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slackwater.owner.served.access.audit_trail import AuditTrail
from slackwater.owner.served.app import create_app
from slackwater.scan.snapshot import Snapshot
from tests.contract.postgres import shared_server
from tests.owner.served.access.provider import Provider
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, taken
from tests.ports import free_port
from tests.stores.documents import blocks

ROOT = Path(__file__).parents[2]
PAGE = "docs/guides/run-an-owner.md"
DEPLOY = ROOT / "docs" / "deploy"
_MAKES_A_TABLE = """
import os
from slackwater.lake.lake import LogLake
from slackwater.protocol.schema.schema import LONG, StructField, StructType
with LogLake.open("lake", database=os.environ["SLACKWATER_DATABASE"]) as lake:
    lake._create_log("orders", StructType((StructField("id", LONG),)))
"""
_METRIC = re.compile(r"\bslackwater_[a-z_]+\b")


def _shell(lines: list[str], where: Path, **environment: str) -> str:
    """What the lines print, all in one shell that ends at the first fault."""
    # Jobs are numbered, as in the shell of people.
    script = "set -euo pipefail; set -m\n" + "\n".join(lines)
    given = {k: v for k, v in os.environ.items() if not k.startswith(("SLACKWATER_", "SSL_CERT"))}
    given |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200", **environment}
    done = subprocess.run(
        ["bash", "-c", script], cwd=where, env=given, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_an_owner_is_run_with_tls_by_an_own_authority_and_tokens(tmp_path: Path) -> None:
    on_one_machine = [block for block in blocks(PAGE, "sh") if "psql" not in block and "backup" not in block]
    assert len(on_one_machine) == 7
    end = next(index for index, block in enumerate(on_one_machine) if block.startswith("kill"))
    Provider(tmp_path / "jwks.json").publish(first="ES256")
    python = "".join(f"python - <<'END'\n{block}END\n" for block in blocks(PAGE))
    lines = [*on_one_machine[:end], python, *on_one_machine[end:]]
    printed = _shell([_on_free_ports(line, tmp_path) for line in lines], tmp_path)
    assert '"status":"ok"' in printed
    assert "[]" in printed.splitlines()
    log = [json.loads(line) for line in (tmp_path / "owner.log").read_text().splitlines() if line.startswith("{")]
    callers = {line["caller"] for line in log if line["event"] == "request" and line["status"] == 200}
    assert callers == {None, "operator", "sales"}
    assert Snapshot.load(tmp_path / "audit").to_arrow()["caller"].to_pylist() == ["sales"]
    assert re.search(r"sales +GET +/v1/tables +200", printed)
    assert [line["event"] for line in log][-1] == "closing the owner"
    assert "staging.*:commit" in printed
    assert (tmp_path / "loader.token").stat().st_mode & 0o077 == 0


_ports: dict[tuple[Path, str], int] = {}


def _on_free_ports(line: str, of: Path) -> str:
    for port in ("8443", "8444"):
        if port in line:
            line = line.replace(port, str(_ports.setdefault((of, port), free_port())))
    return line


def test_an_owner_on_postgresql_is_made_backed_up_and_restored(tmp_path: Path) -> None:
    on_postgresql = [block for block in blocks(PAGE, "sh") if "psql" in block or "backup" in block]
    assert len(on_postgresql) == 3
    server = shared_server()
    made, backup, restore = on_postgresql
    printed = _shell(
        [
            made,
            f"python -c {shlex.quote(_MAKES_A_TABLE)}",
            backup,
            restore,
            "slackwater token list",
            "slackwater lake tables lake",
            'psql -q -d lake -tAc "SELECT count(*) FROM slackwater.owner"',
        ],
        tmp_path,
        PGHOST=str(server.home),
        PGUSER="owner",
        PATH=f"{Path(sys.executable).parent}:{server.programs}:{os.environ['PATH']}",
    )
    assert "loader" in printed
    assert "orders" in printed
    assert printed.splitlines()[-1] == "1"


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    checker = shutil.which("systemd-analyze")
    unit = (DEPLOY / "slackwater.service").read_text(encoding="utf-8")
    command = _flags(unit.split("ExecStart=", 1)[1].split("\n#", 1)[0].replace("\\\n", " "))
    assert command <= _known_flags()
    if checker is None:
        return
    there = tmp_path / "slackwater.service"
    there.write_text(unit.replace("/opt/slackwater/bin/slackwater", sys.executable), encoding="utf-8")
    done = subprocess.run([checker, "verify", str(there)], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "slackwater.service" in line]
    assert ours == []


def test_the_container_starts_the_command_that_there_is() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    said = {name: re.findall(rf"^{name} (\[.*\])$", text, re.MULTILINE) for name in ("ENTRYPOINT", "CMD")}
    entry, more = (json.loads(found[0]) for found in said.values())
    assert entry[:2] == ["slackwater", "serve"]
    assert {flag for flag in entry + more if flag.startswith("--")} <= _known_flags()
    extras = re.search(r"slackwater\[([\w,]+)\]", text)
    assert extras is not None
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [name for name in extras[1].split(",") if not re.search(rf"^{name} = \[", project, re.MULTILINE)] == []


def _flags(command: str) -> set[str]:
    return {word for word in shlex.split(command) if word.startswith("--")}


def _known_flags() -> set[str]:
    from typer.main import get_command

    from slackwater.cli.main import app

    serve = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    return {name for parameter in serve.params for name in parameter.opts}


@pytest.fixture(scope="module")
def exposed() -> set[str]:
    """The names of what an owner with a table, a request and a commit exposes."""
    owner = MemoryOwner()
    taken(owner)
    trail = AuditTrail(lambda _: None)
    client = AppClient(create_app(owner, None, audit=trail))
    client.get("/v1/tables")
    trail.close()
    return set(re.findall(r"^(slackwater_\w+)", client.get("/metrics").text, re.MULTILINE))


@pytest.mark.parametrize("document", ["docs/deploy/alerts.yml", PAGE])
def test_every_metric_that_is_named_is_exposed(document: str, exposed: set[str]) -> None:
    named = set(_METRIC.findall((ROOT / document).read_text(encoding="utf-8")))
    named = {name for name in named if name != "slackwater_request_seconds"}
    assert len(named) > 5
    assert named <= exposed


def test_the_rules_are_rules_and_the_page_says_what_to_do_about_those_that_wake_somebody(exposed: set[str]) -> None:
    rules = [rule for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
    assert all({"alert", "expr", "for", "labels", "annotations"} <= set(rule) for rule in rules)
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    paged = [rule["alert"] for rule in rules if rule["labels"]["severity"] == "page"]
    assert [name for name in paged if name not in page] == []
    assert set(re.findall(r"`(Slackwater[A-Z]\w+)`", page)) <= {rule["alert"] for rule in rules}
    if checker := shutil.which("promtool"):
        subprocess.run([checker, "check", "rules", str(DEPLOY / "alerts.yml")], check=True)


def test_nginx_takes_its_site_where_it_is_installed(tmp_path: Path) -> None:
    site = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    assert site.count("{") == site.count("}")
    if (checker := shutil.which("nginx")) is None:
        return
    (tmp_path / "site.conf").write_text(_with_certificate(site, tmp_path))
    whole = f"pid {tmp_path}/pid; error_log stderr; events {{}}\nhttp {{ include {tmp_path}/site.conf; }}\n"
    (tmp_path / "nginx.conf").write_text(whole)
    subprocess.run([checker, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")], check=True)


def test_caddy_takes_its_site_where_it_is_installed(tmp_path: Path) -> None:
    site = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    assert "lb_retries 0" in site
    if (checker := shutil.which("caddy")) is None:
        return
    (tmp_path / "Caddyfile").write_text(_with_certificate(site, tmp_path))
    command = [checker, "validate", "--config", str(tmp_path / "Caddyfile"), "--adapter", "caddyfile"]
    subprocess.run(command, check=True, env={**os.environ, "HOME": str(tmp_path)})


def _with_certificate(site: str, folder: Path) -> str:
    """The text of a site, with a certificate of its own in the place of the owner's."""
    request = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=x -keyout owner.key -out owner.pem"
    subprocess.run(request.split(), cwd=folder, capture_output=True, check=True)
    for name in ("owner.pem", "owner.key"):
        site = site.replace(f"/etc/slackwater/{name}", str(folder / name))
    return site

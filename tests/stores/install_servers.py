"""Servers of object stores: `python -m tests.stores.install_servers` builds them, with Go and npm, once.

They are stricter than the one that the suite has from PyPI: an S3 that checks signatures and stores on disk
(versitygw), Azure's own emulator (Azurite), and one of Google's store (fake-gcs-server). The folder is
`$SLACKWATER_SERVERS`, or one in the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

S3 = "versitygw"
GCS = "fake-gcs-server"
AZURE = "azurite-blob"

_GO = {S3: "github.com/versity/versitygw/cmd/versitygw@v1.8.0", GCS: "github.com/fsouza/fake-gcs-server@v1.56.1"}
_AZURITE = "azurite@3.37.0"


def folder() -> Path:
    """Where the servers are, or would be."""
    given = os.environ.get("SLACKWATER_SERVERS")
    if given:
        return Path(given).resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "slackwater" / "store-servers"


def program(server: str) -> Path | None:
    """The program of a server that a run is to use: where `$SLACKWATER_SERVERS` says, None where it is not there."""
    if "SLACKWATER_SERVERS" not in os.environ:
        return None
    found = folder() / ("node_modules/.bin" if server == AZURE else "bin") / server
    return found if found.exists() else None


def install() -> Path:
    """Build the servers that are not there yet; a tool that is missing is named, and the others are built."""
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    for server, module in _GO.items():
        if not (target / "bin" / server).exists() and (go := _tool("go", server)):
            subprocess.run(
                [go, "install", module], env=os.environ | {"GOBIN": str(target / "bin")}, stdout=sys.stderr, check=True
            )
    if not (target / "node_modules" / ".bin" / AZURE).exists() and (npm := _tool("npm", AZURE)):
        subprocess.run(
            [npm, "install", "--prefix", str(target), "--no-audit", "--no-fund", _AZURITE],
            stdout=sys.stderr,
            check=True,
        )
    return target


def _tool(name: str, server: str) -> str | None:
    found = shutil.which(name)
    if found is None:
        sys.stderr.write(f"{name} is needed to build {server}, and is not on the PATH: tests go without it\n")
    return found


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")

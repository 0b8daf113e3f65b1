"""The software bill of materials of a release: CycloneDX 1.6 as JSON; `make sbom`.

    python -m tools.sbom [--output PATH]

The components are the packages which `slackwater` and all of its extras install, with the versions of constraints.txt.
The file depends on the sources and the environment only. It has a time if SOURCE_DATE_EPOCH is set, but no serial
number.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hatchling.metadata.core import load_toml
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from slackwater.version import __version__

ROOT = Path(__file__).resolve().parents[1]
OWN = "slackwater"
EXTRA = "slackwater:extra"
"""The property of a component with an extra that installs it."""


def pins() -> dict[str, str]:
    """Return the version of each package in constraints.txt that applies to this Python."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line.strip()]
    return {
        canonicalize_name(each.name): str(each.specifier).removeprefix("==")
        for each in found
        if each.marker is None or each.marker.evaluate()
    }


def requirements() -> dict[str, list[Requirement]]:
    """Return the requirements of the package by extra, without an extra under "". Own extras are expanded."""
    project = load_toml(str(ROOT / "pyproject.toml"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]

    def expanded(texts: Iterable[str]) -> Iterator[Requirement]:
        for requirement in map(Requirement, texts):
            if canonicalize_name(requirement.name) == OWN:
                for extra in sorted(requirement.extras):
                    yield from expanded(extras[extra])
            else:
                yield requirement

    by_extra = {"": project["dependencies"], **extras}
    return {extra: list(expanded(texts)) for extra, texts in by_extra.items()}


class Packages:
    """Installed packages and their dependencies, under the markers of this Python and this system."""

    def __init__(self) -> None:
        self._pins = pins()
        self.depends_on: dict[str, set[str]] = {}

    def closure(self, wanted: Iterable[Requirement]) -> set[str]:
        """Return the names of all packages that `wanted` installs.

        Raises SystemExit if a package is missing, or has another version than constraints.txt.
        """
        names: set[str] = set()
        seen: set[tuple[str, str]] = set()
        waiting = list(wanted)
        while waiting:
            requirement = waiting.pop()
            name = canonicalize_name(requirement.name)
            names.add(name)
            for extra in ("", *requirement.extras):
                if (name, extra) in seen:
                    continue
                seen.add((name, extra))
                needed = self._needed_by(name, extra)
                self.depends_on.setdefault(name, set()).update(canonicalize_name(each.name) for each in needed)
                waiting += needed
        return names

    def of(self, name: str) -> metadata.Distribution:
        """Return the installed package. Raises SystemExit as `closure`."""
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise SystemExit("%s is not installed. Run `make environment`." % name) from None
        if found.version != self._pins.get(name, found.version):
            raise SystemExit(
                "%s %s is installed, and constraints.txt has %s. Run `make environment`."
                % (name, found.version, self._pins[name])
            )
        return found

    def _needed_by(self, name: str, extra: str) -> list[Requirement]:
        found = [Requirement(text) for text in self.of(name).requires or ()]
        return [each for each in found if each.marker is None or each.marker.evaluate({"extra": extra})]


def licenses(package: metadata.Distribution) -> list[dict[str, Any]]:
    """Return the declared license: an SPDX expression if possible, else the name in the metadata, else nothing."""
    fields = package.metadata
    declared = [text.strip() for field in ("License-Expression", "License") for text in fields.get_all(field) or []]
    for text in declared:
        try:
            return [{"expression": str(canonicalize_license_expression(text))}]
        except InvalidLicenseExpression:
            continue
    prefix = "License :: OSI Approved :: "
    classifiers = fields.get_all("Classifier") or []
    names = [text.removeprefix(prefix) for text in classifiers if text.startswith(prefix)]
    # The field of some packages has the whole text of the license.
    names = names or [text for text in declared if text and "\n" not in text]
    return [{"license": {"name": name}} for name in sorted(names)]


def purl(name: str, version: str) -> str:
    """Return the package URL."""
    return "pkg:pypi/%s@%s" % (name, quote(version, safe=""))


def bill(epoch: str | None) -> dict[str, Any]:
    """Return the bill of materials. `epoch` is its time in seconds since 1970, as text; None: the bill has no time."""
    packages = Packages()
    by_extra = {extra: packages.closure(wanted) for extra, wanted in requirements().items()}
    versions = {name: packages.of(name).version for name in set().union(*by_extra.values())}

    def reference(name: str) -> str:
        return purl(name, versions[name])

    components = []
    for name in sorted(versions):
        is_required = name in by_extra[""]
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": reference(name),
            "name": name,
            "version": versions[name],
            "scope": "required" if is_required else "optional",
            "licenses": licenses(packages.of(name)),
            "purl": reference(name),
        }
        if not is_required:
            extras = sorted(extra for extra, names in by_extra.items() if name in names)
            component["properties"] = [{"name": EXTRA, "value": extra} for extra in extras]
        if not component["licenses"]:
            del component["licenses"]
        components.append(component)
    own = purl(OWN, __version__)
    direct = {canonicalize_name(each.name) for wanted in requirements().values() for each in wanted}
    graph = {own: direct} | {reference(name): packages.depends_on[name] for name in sorted(versions)}
    edges = [{"ref": node, "dependsOn": sorted(map(reference, names))} for node, names in graph.items()]
    about: dict[str, Any] = {
        "component": {
            "type": "library",
            "bom-ref": own,
            "name": OWN,
            "version": __version__,
            "licenses": [{"expression": load_toml(str(ROOT / "pyproject.toml"))["project"]["license"]}],
            "purl": own,
        },
        "properties": [{"name": "slackwater:python", "value": "%d.%d" % sys.version_info[:2]}],
    }
    if epoch is not None:
        time = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
        about = {"timestamp": time.isoformat(), **about}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": about,
        "components": components,
        "dependencies": edges,
    }


def text(epoch: str | None = None) -> str:
    """Return the bill of materials as JSON."""
    return json.dumps(bill(epoch), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=re.split(r"[.;]", __doc__ or "")[0])
    default = ROOT / "dist" / ("%s-%s.cdx.json" % (OWN, __version__))
    parser.add_argument("--output", type=Path, default=default, help="default: dist/slackwater-VERSION.cdx.json")
    output: Path = parser.parse_args().output
    written = text(os.environ.get("SOURCE_DATE_EPOCH"))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(written, encoding="utf-8")
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())

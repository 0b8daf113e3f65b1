"""The software bill of materials: the schema of CycloneDX, and the packages of constraints.txt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="pip install --group test")

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tools import sbom

ROOT = Path(__file__).parents[2]


@cache
def bill() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sbom.text())
    return found


def component(name: str) -> dict[str, Any]:
    (found,) = [each for each in bill()["components"] if each["name"] == name]
    return dict(found)


def test_the_bill_is_valid_by_the_schema_of_cyclonedx() -> None:
    pytest.importorskip("cyclonedx", reason="pip install --group test")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    validator = JsonStrictValidator(SchemaVersion.V1_6)
    text = sbom.text("1767225600")
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"scope": "required"', '"scope": "needed"')) is not None


def test_the_bill_has_every_package_that_the_wheel_and_its_extras_require() -> None:
    required = {canonicalize_name(each.name) for wanted in sbom.requirements().values() for each in wanted}
    names = {each["name"] for each in bill()["components"]}
    assert required < names
    # Dependencies of dependencies, by markers and extras.
    assert {"py4j", "grpcio", "psycopg-binary", "cryptography", "h11"} < names
    assert not names & {"slackwater", "pytest", "hatchling", "moto", "cyclonedx-python-lib"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="constraints.txt pins some packages from Python 3.11 on")
def test_every_version_is_that_of_the_constraints() -> None:
    pins = sbom.pins()
    assert {each["name"]: each["version"] for each in bill()["components"]} == {
        each["name"]: pins.get(each["name"]) for each in bill()["components"]
    }


def test_each_component_has_a_reference_and_the_graph_leads_to_it() -> None:
    references = {each["bom-ref"] for each in bill()["components"]}
    assert all(each["bom-ref"] == each["purl"] for each in bill()["components"])
    assert len(references) == len(bill()["components"])
    edges = {each["ref"]: each["dependsOn"] for each in bill()["dependencies"]}
    own = bill()["metadata"]["component"]["bom-ref"]
    assert set(edges) == references | {own}
    reached, waiting = set(), [own]
    while waiting:
        reference = waiting.pop()
        if reference not in reached:
            reached.add(reference)
            waiting += edges[reference]
    assert reached == set(edges)


def test_packages_of_extras_are_optional_and_name_their_extras() -> None:
    assert component("pyarrow")["scope"] == "required"
    assert "properties" not in component("pyarrow")
    obstore = component("obstore")
    assert obstore["scope"] == "optional"
    assert obstore["properties"] == [{"name": sbom.EXTRA, "value": "stores"}]


def test_licenses_are_expressions_of_spdx_or_names() -> None:
    assert component("pyspark")["licenses"] == [{"expression": "Apache-2.0"}]
    assert component("duckdb")["licenses"] == [{"license": {"name": "MIT License"}}]
    without = [each["name"] for each in bill()["components"] if "licenses" not in each]
    assert set(without) <= {"resvg-py"}, "these packages declare no license"


def test_the_bill_is_the_same_in_each_process_and_has_no_time(tmp_path: Path) -> None:
    def written(name: str, **environment: str) -> str:
        kept = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        command = [sys.executable, "-m", "tools.sbom", "--output", str(tmp_path / name)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env={**kept, **environment})
        return (tmp_path / name).read_text(encoding="utf-8")

    assert written("a", PYTHONHASHSEED="1", TZ="Asia/Tokyo") == written("b", PYTHONHASHSEED="2") == sbom.text()
    assert "timestamp" not in bill()["metadata"]
    dated = json.loads(written("c", SOURCE_DATE_EPOCH="1767225600"))
    assert dated["metadata"]["timestamp"] == "2026-01-01T00:00:00+00:00"


def test_another_version_than_that_of_the_constraints_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sbom, "pins", lambda: {"numpy": "0.1"})
    installed = metadata.version("numpy")
    with pytest.raises(SystemExit, match=rf"^numpy {installed} is installed, and constraints.txt has 0.1. Run `make"):
        sbom.bill(None)


def test_a_missing_package_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"^no-such-package is not installed\. Run `make environment`\.$"):
        sbom.Packages().closure([Requirement("no-such-package")])

"""Spark's connector for S3: `python -m tests.stores.install_connector` fetches it, of the Hadoop that PySpark has.

It is hadoop-aws with the modules of the AWS SDK that it uses, 16 MB, rather than the SDK's bundle of 600 MB. The folder
is `$SLACKWATER_CONNECTOR`, or one named after the version in the user's cache.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.interop.install_delta_spark import artifact_of

_SDK = "2.35.4"
_ACCELERATOR = "1.3.1"
_DEPENDENCY = """\
    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{without}
    </dependency>
"""
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>stores</artifactId><version>1</version>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""
# Hadoop's own copies of these are in PySpark under other names of files.
_REPLACED = ("commons-logging", "slf4j-api")


def folder() -> Path:
    """Where the connector is, or would be."""
    given = os.environ.get("SLACKWATER_CONNECTOR")
    if given:
        return Path(given).resolve()
    return cached(f"hadoop-aws-{hadoop_version()}")


def cached(name: str) -> Path:
    """A folder of the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "slackwater" / name


def install() -> Path:
    """Fetch the JARs; what is there already is kept."""
    return fetched(
        folder(),
        [
            ("org.apache.hadoop", "hadoop-aws", hadoop_version(), ALONE),
            ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", _ACCELERATOR, ALONE),
            *(("software.amazon.awssdk", module, _SDK, "") for module in ("s3", "sts", "s3-transfer-manager")),
        ],
    )


def fetched(target: Path, wanted: Sequence[tuple[str, str, str, str]]) -> Path:
    """The folder `target` with the JARs that Maven has for (group, artifact, version, without), but PySpark's own."""
    if target.is_dir():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        sys.exit("Maven (mvn) is needed to fetch the connector, and is not on the PATH")
    names = ("group", "artifact", "version", "without")
    dependencies = "".join(_DEPENDENCY.format(**dict(zip(names, each, strict=True))) for each in wanted)
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "pom.xml").write_text(_POM.format(dependencies=dependencies))
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={scratch}/jars", "-DincludeScope=runtime"]
        subprocess.run([maven, "--batch-mode", "--quiet", *goal], cwd=scratch, stdout=sys.stderr, check=True)
        bundled = {artifact_of(jar.name) for jar in jars_of_pyspark().glob("*.jar")}
        for jar in Path(scratch, "jars").glob("*.jar"):
            if artifact_of(jar.name) in bundled or artifact_of(jar.name) in _REPLACED:
                jar.unlink()
        target.parent.mkdir(parents=True, exist_ok=True)
        # Moved last: a folder that is there is whole.
        shutil.move(f"{scratch}/jars", target)
    return target


def jars_of_pyspark() -> Path:
    """The folder with the JARs that PySpark has."""
    import pyspark

    return Path(pyspark.__path__[0]) / "jars"


def hadoop_version() -> str:
    """The version of Hadoop that PySpark has."""
    found = (re.fullmatch(r"hadoop-client-api-(.+)\.jar", jar.name) for jar in jars_of_pyspark().glob("*.jar"))
    return next(match[1] for match in found if match)


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")

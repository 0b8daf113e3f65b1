"""Say in one sentence what the machine lacks to build the environment, and how to get it; silent where all is there.

Runs on any Python, however old, hence the old syntax.
"""

import os
import re
import shutil
import subprocess
import sys

# The newest PySpark and other packages of the tests need it. The package itself runs on Python 3.10, too.
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


def java_version():
    # type: () -> int | None
    """The major version of the Java that Spark will start, or None where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if not java or not os.path.exists(java):
        return None
    answer = subprocess.run([java, "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stdout.decode(errors="replace"))
    if not found:
        return None
    return int(found.group(2)) if found.group(1) == "1" and found.group(2) else int(found.group(1))


def fault():
    # type: () -> str | None
    """What is missing, as one sentence with the remedy, or None."""
    if sys.version_info < OLDEST_PYTHON:
        return (
            "A checkout of Slackwater needs Python 3.11 or newer, and this is Python %d.%d. Install a newer one, and "
            "name it: make PYTHON=python3.12 demo" % sys.version_info[:2]
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return (
            "This Python cannot make virtual environments: install its venv module (Debian: apt install python3-venv)."
        )
    version = java_version()
    if version is None:
        return (
            "Spark needs Java %d or newer, and no java was found: install one (Debian: apt install "
            "openjdk-17-jre-headless) or set JAVA_HOME." % OLDEST_JAVA
        )
    if version < OLDEST_JAVA:
        return "Spark needs Java %d or newer, and this is Java %d: install a newer one or set JAVA_HOME to it." % (
            OLDEST_JAVA,
            version,
        )
    return None


if __name__ == "__main__":
    sys.exit(fault())

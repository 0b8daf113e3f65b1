"""Run the blocks of one page in this process, as a reader pastes them: `pasted_page.py BLOCKS.json`.

The file has the name of the page and its blocks. Needs only the standard library, because it runs in the environment of
a reader. Exit code 1 after the first block that fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


class Shell:
    """One shell for all shell blocks of a page: its variables and jobs stay, like in the terminal of a reader."""

    def __init__(self) -> None:
        self._answers, answers = os.pipe()
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE, pass_fds=[answers], text=True
        )
        os.close(answers)
        self._write(f"set -euo pipefail; set -m; exec 9>&{answers}")

    def run(self, block: str) -> None:
        """Run a block to its end; exported variables are then in the environment of this process."""
        with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as file:
            file.write(block)
        # Commands must not read the next lines of this shell as their input.
        self._write(f'. "{file.name}" < /dev/null; env -0 >&9; printf "END=\\0" >&9')
        answer = b""
        while not answer.endswith(b"END=\0"):
            part = os.read(self._answers, 65536)
            if not part:
                raise RuntimeError(f"a command failed, exit code {self._bash.wait()}")
            answer += part
        exported = dict(each.split("=", 1) for each in os.fsdecode(answer).split("\0")[:-2] if "=" in each)
        os.environ.update(exported)

    def close(self) -> None:
        """End the shell, and the jobs that it has left."""
        if self._bash.poll() is None and self._bash.stdin is not None:
            self._write("kill $(jobs -p) 2> /dev/null || true; exit 0")
            self._bash.stdin.close()
            self._bash.wait(30)

    def _write(self, line: str) -> None:
        if self._bash.stdin is None or self._bash.poll() is not None:
            raise RuntimeError("the shell has ended")
        self._bash.stdin.write(line + "\n")
        self._bash.stdin.flush()


def main(path: str) -> int:
    page: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    shell = Shell()
    try:
        for block in page["blocks"]:
            print(f"==== {page['name']}, line {block['line'] + 1}", flush=True)
            if block["file"]:
                Path(block["file"]).parent.mkdir(parents=True, exist_ok=True)
                Path(block["file"]).write_text(block["text"], encoding="utf-8")
            elif block["language"] == "python":
                # An error shows the line of the page.
                exec(compile("\n" * block["line"] + block["text"], page["name"], "exec"), names)  # noqa: S102
            else:
                shell.run(block["text"])
            sys.stdout.flush()
    finally:
        shell.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

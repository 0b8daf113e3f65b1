"""The first lines of a user of `pip install slackwater` alone: `python without_spark.py DIRECTORY`.

It imports nothing of the suite. Exit code 1, and why, where something is not as it should be.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

MOST_S, MOST_MB = 0.15, 50
# `ru_maxrss` is that of the process that started this one, where that was larger.
_IMPORT = """
import re, time
def peak_mb():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before, start = peak_mb(), time.process_time()
import slackwater
print(time.process_time() - start, peak_mb() - before)
"""


def costs() -> tuple[float, float]:
    """Seconds of a processor and MB that `import slackwater` takes, the least of some."""
    said = [
        subprocess.run([sys.executable, "-c", _IMPORT], check=True, capture_output=True, text=True) for _ in "12345"
    ]
    pairs = [tuple(map(float, each.stdout.split())) for each in said]
    return min(seconds for seconds, _ in pairs), min(megabytes for _, megabytes in pairs)


def main(root: Path) -> None:
    """Read and write a table, and see what is missing."""
    seconds, megabytes = costs()
    print(f"import slackwater: {seconds:.3f} s, {megabytes:.0f} MB")  # noqa: T201
    assert seconds <= MOST_S
    assert megabytes <= MOST_MB

    import slackwater

    start = time.perf_counter()
    path = root / "events"
    path.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2, 3], pa.int64())}), path / "a.parquet")
    from slackwater.log.table import Table
    from slackwater.maintenance.convert import ConvertRequest, convert
    from slackwater.protocol.schema.schema import StructType

    convert(Table.at(str(path)), ConvertRequest(StructType()))
    snapshot = slackwater.Snapshot.load(str(path))
    assert snapshot.files(where="id > 2").num_rows == 1
    assert snapshot.to_arrow(columns=["id"], where="id > 1")["id"].to_pylist() == [2, 3]
    print(f"a table is converted and read: {time.perf_counter() - start:.2f} s")  # noqa: T201
    for line, extra in (
        ("slackwater.Snapshot.load('s3://bucket/table')", "stores"),
        ("import slackwater.lake.lake as l; l.LogLake.open('lake')", "lake"),
        ("slackwater.DeltaTable", "spark"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", f"import slackwater; {line}"], capture_output=True, text=True, check=False
        )
        said = done.stderr.strip().splitlines()[-1]
        print(said)  # noqa: T201
        assert f"pip install 'slackwater[{extra}]'" in said
    done = subprocess.run([sys.executable, "-m", "slackwater"], capture_output=True, text=True, check=False)
    print(done.stderr.strip())  # noqa: T201
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB in all")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Sessions of Spark Connect whose server PySpark starts in the same process: each server has a port of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connected(
    builder: SparkSession.Builder, master: str, of_server: Mapping[str, str] | None = None
) -> SparkSession.Builder:
    """`builder`, for a server on `master` that it starts with settings that no client may set, and a client of it.

    Of those settings none is `spark.sql.…`: PySpark has each client set these.
    PySpark's own server always takes the same port: a client beside it would find the server of another process there,
    which refuses it.
    """
    from pyspark.sql.connect.client import DefaultChannelBuilder

    port = free_port()
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
    settings = {**(of_server or {}), "spark.connect.grpc.binding.port": str(port)}
    # As `pyspark --remote local --conf …` hands them on.
    os.environ |= {"PYSPARK_REMOTE_INIT_CONF_LEN": "1", "PYSPARK_REMOTE_INIT_CONF_0": json.dumps(settings)}
    return builder.remote(master)

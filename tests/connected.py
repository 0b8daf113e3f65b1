"""Sessions of Spark Connect whose server PySpark starts in the same process: each server has a port of its own."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

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

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    settings = {**(of_server or {}), "spark.connect.grpc.binding.port": str(port)}
    # As `pyspark --remote local --conf …` hands them on.
    os.environ |= {"PYSPARK_REMOTE_INIT_CONF_LEN": "1", "PYSPARK_REMOTE_INIT_CONF_0": json.dumps(settings)}
    return builder.remote(master)

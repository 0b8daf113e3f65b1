"""A served owner that tests crowd: a process whose settings are the first argument, in JSON, its log on stderr.

The second argument, where there is one, is how many file descriptors it may have, the third how many it uses up.
"""

from __future__ import annotations

import os
import resource
import sys

import orjson

from slackwater.owner.served.http.access_log import log_to
from slackwater.owner.served.server import Binding, OwnerServer
from slackwater.owner.served.settings import ServedSettings
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.slow_server import say

if __name__ == "__main__":
    settings = ServedSettings(**orjson.loads(sys.argv[1]))
    if len(sys.argv) > 2:
        most = int(sys.argv[2])
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    hoard = [os.open(os.devnull, os.O_RDONLY) for _ in range(int(sys.argv[3]))] if len(sys.argv) > 3 else []
    log_to()
    OwnerServer(MemoryOwner(), None, Binding(port=0), settings).run(say)

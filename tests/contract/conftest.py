"""The S3 server that the contract suites share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.s3_server import s3_server


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    pytest.importorskip("moto", reason='the S3 half of the suite needs a server: pip install "moto[server]"')
    pytest.importorskip("flask", reason='the S3 half of the suite needs a server: pip install "moto[server]"')
    with s3_server() as options:
        yield options

"""A table of a Unity Catalog in a bucket: the catalog gives out the credentials, for the log and for the rows."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.settings import ServedSettings
from tests.owner.served.serving import served
from tests.stores.proxy import fault_proxy
from tests.stores.servers import Place

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("gives", [True, False])
def test_the_credentials_of_the_catalog_open_the_log_and_the_rows(
    spark: SparkSession, s3: Place, tmp_path: Path, gives: bool
) -> None:
    root = f"{s3.url.replace('s3a:', 's3:')}/{uuid.uuid4()}"
    keys = {key.lower(): value for key, value in s3.options.items()}
    owner = EmbeddedOwner.open(root, f"sqlite:///{tmp_path}/owner.db", keys)
    given = {"aws_access_key_id": "BYCATALOG", "aws_secret_access_key": "secret"} if gives else {}
    with fault_proxy(dict(s3.options)) as proxy, served(owner, settings=ServedSettings(credentials=given)) as url:
        options = {key: value for key, value in proxy.options.items() if "key" not in key.lower()}
        api = f"uc:{url}/api/2.1/unity-catalog"
        with slackwater.Lake.connect(api, catalog="main", storage_options=options, spark=spark) as lake:
            lake.attach(spark, "main")
            lake.create_table("sales.orders", "id BIGINT, name STRING")
            spark.sql("INSERT INTO main.sales.orders VALUES (1, 'a'), (2, 'b')").collect()
            lake.table("sales.orders").update("id = 1", {"name": "'c'"})
            expected = [(1, "c"), (2, "b")]
            assert sorted(map(tuple, spark.table("main.sales.orders").collect())) == expected
            assert sorted(map(tuple, lake.table("sales.orders").toDF().collect())) == expected
            rows = lake.snapshot("sales.orders").to_arrow().to_pylist()
            assert sorted((row["id"], row["name"]) for row in rows) == expected
            assert owner.table("sales.orders").ratified_version == 2
        senders = {request.signed_by for request in proxy.seen}
    # Without credentials of the catalog, those of the session or of the environment are used.
    assert senders == ({"BYCATALOG"} if gives else {keys["aws_access_key_id"]})
    assert any(request.key.endswith(".parquet") for request in proxy.seen)

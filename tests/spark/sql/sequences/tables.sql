CREATE TABLE plain (id BIGINT, name STRING) USING parquet

INSERT INTO plain VALUES (1, 'a'), (2, 'b')

INSERT INTO TABLE plain SELECT 3, 'c'

INSERT INTO plain (name, id) VALUES ('d', 4)

INSERT INTO plain BY NAME SELECT 'e' AS name, 5L AS id

SELECT * FROM plain ORDER BY id

SELECT plain.id FROM corpus.plain ORDER BY id

SELECT * FROM spark_catalog.corpus.plain ORDER BY id

SELECT count(*) FROM plain VERSION AS OF 1

SELECT count(*) FROM plain TIMESTAMP AS OF '2024-01-01'

UPDATE plain SET id = 1

DELETE FROM plain WHERE id = 1

MERGE INTO plain USING (SELECT 1 AS id) s ON plain.id = s.id WHEN MATCHED THEN DELETE

INSERT OVERWRITE plain VALUES (9, 'z')

INSERT INTO plain REPLACE WHERE id = 9 SELECT 9L, 'y'

SELECT * FROM plain

DROP TABLE plain
====
CREATE TABLE parts (id INT, day DATE, n INT) USING parquet PARTITIONED BY (day)

INSERT INTO parts PARTITION (day = '2024-01-01') VALUES (1, 10)

INSERT INTO parts PARTITION (day) VALUES (2, 20, DATE '2024-01-02')

INSERT OVERWRITE parts PARTITION (day = '2024-01-01') VALUES (3, 30)

SHOW PARTITIONS parts

SHOW PARTITIONS parts PARTITION (day = '2024-01-01')

ALTER TABLE parts ADD PARTITION (day = '2024-02-01')

ALTER TABLE parts DROP IF EXISTS PARTITION (day = '2024-02-01')

SELECT * FROM parts WHERE day >= '2024-01-02' ORDER BY id

DESCRIBE parts

SHOW COLUMNS IN parts

TRUNCATE TABLE parts PARTITION (day = '2024-01-01')

SELECT count(*) FROM parts

TRUNCATE TABLE parts

SELECT count(*) FROM parts

DROP TABLE parts
====
CREATE TABLE delta (delta INT, version INT) USING parquet COMMENT 'USING delta'

INSERT INTO delta VALUES (1, 2)

SELECT delta, version FROM delta

SELECT delta.delta, delta.version FROM corpus.delta AS delta

SELECT d.version AS of FROM delta d

INSERT INTO corpus.delta (delta, version) SELECT 3, 4

SHOW TBLPROPERTIES delta ('no.such')

DESCRIBE delta

DESCRIBE TABLE delta version

DROP TABLE delta
====
CREATE TABLE history (detail INT) USING parquet

CREATE TABLE detail (history INT) USING parquet

DESCRIBE history

DESC detail

DESC TABLE history

SELECT history.detail, d.history FROM history CROSS JOIN detail AS d

DROP TABLE history

DROP TABLE detail
====
CREATE TABLE vacuum (retain INT, hours INT) USING parquet

INSERT INTO vacuum VALUES (1, 2)

SELECT retain hours FROM vacuum

TABLE vacuum

DROP TABLE vacuum
====
CREATE TABLE made USING parquet AS SELECT id, id * 2 AS twice FROM range(5)

CREATE TABLE made USING parquet AS SELECT 1

CREATE TABLE IF NOT EXISTS made USING parquet AS SELECT 1 AS other

CREATE TABLE like_made LIKE made

CREATE TABLE like_csv LIKE made USING csv

DESCRIBE like_made

SELECT sum(twice) FROM made

ALTER TABLE made RENAME TO renamed

SELECT count(*) FROM renamed

SHOW TABLES IN corpus

DROP TABLE renamed

DROP TABLE like_made

DROP TABLE like_csv
====
CREATE TABLE wide (id INT COMMENT 'the key', p STRUCT<x: INT, y: STRING>, a ARRAY<INT>, m MAP<STRING, INT>) USING parquet TBLPROPERTIES ('k' = 'v', delta.appendOnly = 'true')

ALTER TABLE wide ADD COLUMNS (extra DOUBLE COMMENT 'more')

ALTER TABLE wide SET TBLPROPERTIES ('k' = 'w', 'l' = 'delta')

ALTER TABLE wide UNSET TBLPROPERTIES ('l')

ALTER TABLE wide ALTER COLUMN id COMMENT 'its key'

ALTER TABLE wide DROP COLUMN extra

ALTER TABLE wide RENAME COLUMN id TO key

ALTER TABLE wide ADD CONSTRAINT positive CHECK (id > 0)

ALTER TABLE wide CLUSTER BY (id)

COMMENT ON TABLE wide IS 'a comment; with -- signs'

SHOW TBLPROPERTIES wide ('k')

INSERT INTO wide VALUES (1, struct(1, 'y'), array(1), map('a', 1), 1.5)

SELECT p.x, a[0], m['a'], extra FROM wide

DESCRIBE wide p

DROP TABLE wide
====
CREATE TABLE defaults (id INT, n INT DEFAULT 5, s STRING DEFAULT 'it''s') USING parquet

INSERT INTO defaults (id) VALUES (1)

INSERT INTO defaults VALUES (2, DEFAULT, 'x')

SELECT * FROM defaults ORDER BY id

DROP TABLE defaults
====
CREATE TABLE bucketed (id INT, n INT) USING parquet CLUSTERED BY (id) SORTED BY (n) INTO 2 BUCKETS

CREATE TABLE bucketed (id INT) USING parquet

DROP TABLE bucketed
====
CREATE TABLE as_csv (id INT, s STRING) USING csv OPTIONS (header = 'true', sep ';')

INSERT INTO as_csv VALUES (1, 'a;b')

SELECT * FROM as_csv

CREATE TABLE as_json USING json AS SELECT 1 AS a, array(1, 2) AS b

SELECT * FROM as_json

CREATE TABLE as_orc USING orc AS SELECT 1 AS a

SELECT * FROM as_orc

DROP TABLE as_csv

DROP TABLE as_json

DROP TABLE as_orc
====
CREATE EXTERNAL TABLE outside (id INT) USING parquet LOCATION '$room/outside'

CREATE TABLE outside (id INT) USING parquet LOCATION '$room/outside'

INSERT INTO outside VALUES (1)

SELECT * FROM parquet.`$room/outside`

SELECT p.id FROM parquet.`$room/outside` AS p

INSERT OVERWRITE DIRECTORY '$room/written' USING parquet SELECT 7 AS n

SELECT * FROM parquet.`$room/written`

DROP TABLE outside
====
CREATE TABLE `odd table` (`a b` INT, `ü` INT, `x.y` INT, `back``tick` INT) USING parquet

INSERT INTO `odd table` VALUES (1, 2, 3, 4)

SELECT `a b`, `ü`, `x.y`, `back``tick` FROM corpus.`odd table`

ALTER TABLE `odd table` SET TBLPROPERTIES ('ö' = '日本')

SHOW TBLPROPERTIES `odd table` ('ö')

DROP TABLE `odd table`
====
WITH s AS (SELECT 1 AS id) INSERT INTO no_table SELECT * FROM s

CREATE TABLE target (id INT) USING parquet

WITH s AS (SELECT 1 AS id) INSERT INTO target SELECT * FROM s

FROM range(2, 4) INSERT INTO target SELECT CAST(id AS INT)

FROM (SELECT CAST(id AS INT) AS i FROM range(10, 12)) INSERT INTO target SELECT i INSERT INTO target SELECT i + 100

INSERT INTO target TABLE target

SELECT * FROM target ORDER BY id

INSERT INTO target VALUES ('x')

INSERT INTO target VALUES (1, 2)

INSERT INTO target (nope) VALUES (1)

ANALYZE TABLE target COMPUTE STATISTICS FOR ALL COLUMNS

DESCRIBE target id

REFRESH TABLE target

REPAIR TABLE target

DROP TABLE target

SELECT 'CREATE TABLE t (id BIGINT) USING delta' AS statement

SELECT "MERGE INTO delta.`/tmp/t` USING s ON TRUE WHEN MATCHED THEN DELETE" AS statement

SELECT 1 -- FROM delta.`/tmp/t` VERSION AS OF 1

SELECT /* VACUUM t; OPTIMIZE t; DESCRIBE HISTORY t */ 2 AS two

-- CREATE TABLE t USING delta
SELECT 3

/* RESTORE TABLE t TO VERSION AS OF 1 */ SELECT 4

/* outer /* inner: delta.`/t` */ still a comment */ SELECT 5

/*
 * VERSION AS OF 3
 */
SELECT 6

WITH delta AS (SELECT 1 AS t) SELECT delta.t FROM delta

WITH delta AS (SELECT 1 AS t) SELECT `delta`.`t` FROM delta AS delta

SELECT delta FROM VALUES (1) AS t(delta)

SELECT delta.x FROM VALUES (1) AS delta(x)

SELECT delta.delta.delta FROM VALUES (named_struct('delta', named_struct('delta', 1))) AS t(delta)

SELECT t.delta['delta'] FROM VALUES (map('delta', 7)) AS t(delta)

SELECT 1 AS delta, 2 AS version, 3 AS timestamp, 4 AS history, 5 AS detail, 6 AS vacuum

SELECT version AS of FROM VALUES (1) AS t(version)

SELECT timestamp AS of FROM VALUES (1) AS t(timestamp)

SELECT version AS of, timestamp AS as FROM VALUES (1, 2) AS v(version, timestamp)

SELECT version FROM VALUES (1) AS version(version)

SELECT v.* FROM VALUES (1) AS v(version) WHERE version = 1

SELECT optimize FROM VALUES (1) AS vacuum(optimize)

SELECT restore.convert FROM VALUES (1) AS restore(convert)

SELECT generate, reorg, clone, zorder FROM VALUES (1, 2, 3, 4) AS t(generate, reorg, clone, zorder)

SELECT merge.update FROM VALUES (1) AS merge(update)

SELECT history.* FROM (SELECT 1 AS a) history

SELECT detail.a FROM (SELECT 1 AS a) AS detail

SELECT begin, commit, rollback, transaction FROM VALUES (1, 2, 3, 4) AS t(begin, commit, rollback, transaction)

SELECT 'BEGIN TRANSACTION' AS `BEGIN TRANSACTION`

SELECT 'COMMIT' AS commit

SELECT 'a' 'b' "delta" AS joined

SELECT 'people@v1' AS name

SELECT id FROM people AS `people@v1`

SELECT `people@v1`.id FROM people AS `people@v1`

SELECT 'table_changes(''t'', 1)' AS call

SELECT table_changes FROM VALUES (1) AS t(table_changes)

SELECT system_time FROM VALUES (1) AS t(system_time)

SELECT 'FOR SYSTEM_TIME AS OF' AS words, 1 AS `FOR`

SELECT for FROM VALUES (1) AS t(for)

SELECT count(*) AS n FROM (SELECT 'delta' AS using) t WHERE using = 'delta'

SELECT format FROM VALUES ('delta') AS t(format) WHERE format = 'delta'

SELECT * FROM people AS delta WHERE delta.id = 1

SELECT * FROM people delta JOIN sales parquet ON delta.id = parquet.person ORDER BY ALL

SELECT lake.id FROM people AS lake WHERE lake.id < 3 ORDER BY id

SELECT 'slackwater' AS slackwater

SELECT slackwater.enabled FROM VALUES (1) AS slackwater(enabled)

SELECT clustering, identity, generated, always FROM VALUES (1, 2, 3, 4) AS t(clustering, identity, generated, always)

SELECT current_version FROM VALUES (1) AS t(current_version)

SELECT replace('VERSION AS OF', 'OF', 'IF')

SELECT replace FROM VALUES (1) AS t(replace)

SELECT overlay('delta lake' PLACING 'xx' FROM 2 FOR 3)

SELECT substring('delta' FROM 2 FOR 3)

SELECT * FROM VALUES ('delta.`/tmp/x`') AS t(path) WHERE path LIKE 'delta.%'

SELECT * FROM parquet.`/nowhere/at/all`

SELECT * FROM json.`/nowhere/at/all` VERSION AS OF 1

SELECT * FROM no_table

SELECT * FROM no_table VERSION AS OF 1

SELECT * FROM no_database.no_table TIMESTAMP AS OF '2024-01-01'

SELECT * FROM no_catalog.no_database.no_table

SELECT * FROM people VERSION AS OF 1

SELECT * FROM people TIMESTAMP AS OF '2024-01-01'

DELETE FROM no_table WHERE id = 1

UPDATE no_table SET id = 1

MERGE INTO no_table USING people ON no_table.id = people.id WHEN MATCHED THEN DELETE

INSERT INTO no_table VALUES (1)

INSERT OVERWRITE no_table SELECT 1

TRUNCATE TABLE no_table

ALTER TABLE no_table ADD COLUMNS (c INT)

ALTER TABLE no_table SET TBLPROPERTIES ('a' = 'b')

SHOW CREATE TABLE no_table

SHOW TBLPROPERTIES no_table

SHOW COLUMNS IN no_table

SHOW PARTITIONS no_table

DESCRIBE no_table

DESCRIBE EXTENDED no_table

ANALYZE TABLE no_table COMPUTE STATISTICS

REFRESH TABLE no_table

DROP TABLE no_table

DROP VIEW no_view

DROP TABLE IF EXISTS no_table

DROP VIEW IF EXISTS no_view

COMMENT ON TABLE no_table IS 'nothing'

SET spark.sql.ansi.enabled = false

SELECT 1 / 0, CAST('x' AS INT), array(1)[5], 2147483647 + 1

SELECT CAST('2024-99-01' AS DATE), 'a' + 1

SELECT from FROM VALUES (1) AS t(from)

SELECT 1 AS select, 2 AS order

INSERT INTO no_table VALUES (1)

SET spark.sql.ansi.enabled = true

SELECT 1 / 0

RESET spark.sql.ansi.enabled
====
SET spark.sql.ansi.enforceReservedKeywords = true

SELECT 1 AS order

SELECT 1 AS delta, 2 AS version

RESET spark.sql.ansi.enforceReservedKeywords
====
SET spark.sql.ansi.doubleQuotedIdentifiers = true

SELECT "id", 'text' FROM "people" ORDER BY "id"

SELECT 1 AS "delta", 2 AS "VERSION AS OF"

SELECT "a column", "dotted.name" FROM "odd name"

CREATE TABLE "quoted" ("my id" INT) USING parquet

INSERT INTO "corpus"."quoted" VALUES (1)

SELECT "quoted"."my id" FROM "quoted"

SELECT "no such"

DROP TABLE "quoted"

RESET spark.sql.ansi.doubleQuotedIdentifiers
====
SET spark.sql.caseSensitive = true

SELECT ID FROM people

SELECT id AS a, name AS A FROM people ORDER BY id

SELECT a, A FROM (SELECT 1 AS a, 2 AS A)

SELECT id FROM PEOPLE

RESET spark.sql.caseSensitive

SELECT a FROM (SELECT 1 AS a, 2 AS A)
====
SET corpus.word = people

SELECT count(*) FROM ${corpus.word}

SELECT '${corpus.word}', "${hiveconf:corpus.word}"

SELECT '${no.such.word}'

SET spark.sql.variable.substitute = false

SELECT '${corpus.word}'

SELECT count(*) FROM ${corpus.word}

SET spark.sql.variable.substitute = true

SET corpus.word

SET corpus.word = two words; and a sign

SET corpus.word

RESET corpus.word
====
SET spark.sql.parser.escapedStringLiterals = true

SELECT 'a\d', '\n', "\\"

RESET spark.sql.parser.escapedStringLiterals
====
SET TIME ZONE 'Europe/Paris'

SELECT TIMESTAMP '2024-07-01 12:00:00', current_timezone()

SET TIME ZONE INTERVAL '5:45' HOUR TO MINUTE

SELECT CAST(TIMESTAMP '2024-07-01 12:00:00 UTC' AS STRING)

SET TIME ZONE 'UTC'
====
SET spark.sql.groupByOrdinal = false

SELECT age, count(*) FROM people GROUP BY 1

RESET spark.sql.groupByOrdinal

SET spark.sql.orderByOrdinal = false

SELECT id FROM people ORDER BY 1

RESET spark.sql.orderByOrdinal
====
SET spark.sql.timestampType = TIMESTAMP_NTZ

SELECT TIMESTAMP '2024-01-01 00:00:00', typeof(CAST('2024-01-01' AS TIMESTAMP))

RESET spark.sql.timestampType
====
SET spark.sql.sources.default = json

CREATE TABLE by_default (id INT)

INSERT INTO by_default VALUES (1)

SELECT * FROM by_default

DROP TABLE by_default

RESET spark.sql.sources.default
====
SET spark.sql.legacy.setopsPrecedence.enabled = true

SELECT 1 UNION SELECT 2 INTERSECT SELECT 2

RESET spark.sql.legacy.setopsPrecedence.enabled
====
CACHE TABLE cached AS SELECT id FROM people WHERE id > 2

SELECT * FROM cached ORDER BY id

CACHE LAZY TABLE people

SELECT count(*) FROM people

CACHE TABLE sales OPTIONS ('storageLevel' = 'MEMORY_ONLY')

SELECT count(*) FROM sales

UNCACHE TABLE people

UNCACHE TABLE sales

UNCACHE TABLE cached

DROP VIEW cached
====
USE corpus

SHOW CURRENT NAMESPACE

USE DATABASE default

SHOW CURRENT DATABASE

USE spark_catalog.corpus

SELECT current_database()

USE CATALOG spark_catalog

SET CATALOG spark_catalog

SELECT current_catalog()

USE corpus

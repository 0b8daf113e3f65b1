CREATE TEMPORARY VIEW v AS SELECT 1 AS a, 'x' AS b

SELECT * FROM v

CREATE TEMPORARY VIEW v AS SELECT 2

CREATE OR REPLACE TEMP VIEW v (c COMMENT 'renamed', d) AS SELECT 2, 3

SELECT c, d FROM v

DESCRIBE v

ALTER VIEW v AS SELECT 4 AS e

TABLE v

INSERT INTO v VALUES (1)

DROP VIEW v

SELECT * FROM v
====
CREATE GLOBAL TEMPORARY VIEW shared AS SELECT 5 AS n

SELECT * FROM global_temp.shared

SELECT * FROM shared

DROP VIEW global_temp.shared
====
CREATE TABLE base (id INT, n INT) USING parquet

INSERT INTO base VALUES (1, 10), (2, 20)

CREATE VIEW over_base AS SELECT id, n * 2 AS m FROM base WHERE id > 0

CREATE VIEW IF NOT EXISTS over_base AS SELECT 1

CREATE OR REPLACE VIEW over_base (i COMMENT 'c') COMMENT 'a view' TBLPROPERTIES ('k' = 'v') AS SELECT id FROM base

SELECT * FROM over_base ORDER BY i

SHOW CREATE TABLE over_base

SHOW VIEWS IN corpus

ALTER VIEW over_base RENAME TO renamed_view

SELECT count(*) FROM renamed_view

INSERT INTO renamed_view VALUES (1)

DROP TABLE renamed_view

DROP VIEW renamed_view

DROP TABLE base
====
CREATE TEMPORARY VIEW of_files USING parquet OPTIONS (path '$room/nowhere')

CREATE TEMPORARY VIEW delta AS SELECT 'x' AS delta

SELECT delta FROM delta

SELECT delta.delta FROM delta

DROP VIEW delta
====
CREATE DATABASE second COMMENT 'another' WITH DBPROPERTIES ('a' = 'b')

DESCRIBE DATABASE EXTENDED second

SHOW DATABASES LIKE 'second'

USE second

SELECT current_database(), current_schema(), current_catalog()

CREATE TABLE t (id INT) USING parquet

SHOW TABLES

INSERT INTO second.t VALUES (1)

SELECT second.t.id FROM second.t

ALTER DATABASE second SET DBPROPERTIES ('a' = 'c')

DROP DATABASE second RESTRICT

USE corpus

DROP DATABASE second CASCADE

USE second
====
CREATE DATABASE delta

CREATE TABLE delta.t (id INT) USING parquet

INSERT INTO delta.t VALUES (1)

SELECT * FROM delta.t

SELECT t.id FROM delta.t

SELECT spark_catalog.delta.t.id FROM spark_catalog.delta.t

SHOW TABLES IN delta

DROP TABLE delta.t

DROP DATABASE delta
====
DECLARE VARIABLE n INT DEFAULT 5

SELECT n, n + 1, session.n, system.session.n

SET VAR n = 7

SET VARIABLE n = (SELECT max(id) FROM people)

SELECT n

SELECT id FROM people WHERE id = n

DECLARE OR REPLACE VARIABLE n STRING = 'text'

SELECT n

DECLARE VARIABLE query STRING DEFAULT 'SELECT id FROM people WHERE id < :top ORDER BY id'

EXECUTE IMMEDIATE query USING 3 AS top

EXECUTE IMMEDIATE 'SELECT 42' INTO n

SELECT n

DECLARE VARIABLE name STRING DEFAULT 'people'

SELECT count(*) FROM IDENTIFIER(name)

SELECT IDENTIFIER(name || '.id') FROM people ORDER BY 1

CREATE TEMPORARY VIEW IDENTIFIER('by_' || name) AS SELECT 1 AS one

SELECT * FROM by_people

DROP VIEW by_people

DROP TEMPORARY VARIABLE n

DROP TEMPORARY VARIABLE query

DROP TEMPORARY VARIABLE name

SELECT n
====
DECLARE delta INT DEFAULT 1

DECLARE version = 2

SELECT delta, version AS of

SET VAR (delta, version) = (SELECT 3, 4)

SELECT delta + version

DROP TEMPORARY VARIABLE delta

DROP TEMPORARY VARIABLE version
====
CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2

SELECT twice(21), twice(x => 4)

CREATE TEMPORARY FUNCTION rows_up_to(n INT) RETURNS TABLE (i INT, s STRING) RETURN SELECT CAST(id AS INT), 'r' || id FROM range(n)

SELECT * FROM rows_up_to(3) ORDER BY i

CREATE TEMPORARY FUNCTION greet(name STRING DEFAULT 'you') RETURNS STRING COMMENT 'says hello' RETURN 'hello ' || name

SELECT greet(), greet('me')

DESCRIBE FUNCTION greet

CREATE TEMPORARY FUNCTION table_changes(a STRING) RETURNS STRING RETURN a || '!'

SELECT table_changes('x')

SELECT twice('x'), twice(1, 2)

DROP TEMPORARY FUNCTION twice

DROP TEMPORARY FUNCTION rows_up_to

DROP TEMPORARY FUNCTION greet

DROP TEMPORARY FUNCTION table_changes
====
CREATE FUNCTION corpus.lasting AS 'no.such.Class'

CREATE FUNCTION corpus.lasting(x INT) RETURNS INT RETURN x

CREATE OR REPLACE FUNCTION lasting(x INT) RETURNS INT RETURN x + 1

SELECT lasting(1), corpus.lasting(2)

DROP FUNCTION lasting

SELECT lasting(1)

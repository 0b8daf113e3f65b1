SELECT 1

select 1

SeLeCt 1 aS One

SELECT 1;

SELECT 1 ;;

;

SELECT

SELECT FROM people

SELEC 1

SELECT 1 +

SELECT (1

SELECT 1 FROM

SELECT * FORM people

SELECT nope FROM people

SELECT nope(1)

SELECT people.nope FROM people

SELECT id, id FROM people ORDER BY 1

SELECT *, id FROM people ORDER BY people.id

SELECT * EXCEPT (wage, born) FROM people ORDER BY id

SELECT people.* EXCEPT (id) FROM people ORDER BY name

SELECT id i, name AS n, age + 1 AS `age next year` FROM people ORDER BY i

SELECT DISTINCT age FROM people ORDER BY age

SELECT DISTINCT age, wage FROM people ORDER BY ALL

SELECT ALL age FROM people ORDER BY age NULLS LAST

SELECT DISTINCT ON (age) id FROM people

SELECT count(*) FROM people

SELECT count(1), count(age), count(DISTINCT age), sum(age), avg(wage), min(name), max(born) FROM people

SELECT count(*) FILTER (WHERE age > 30) AS old, count_if(age <= 30) AS young FROM people

SELECT id FROM people WHERE age > 30 AND NOT is_member ORDER BY id

SELECT id FROM people WHERE age IS NULL OR born IS NOT NULL ORDER BY id

SELECT id FROM people WHERE age BETWEEN 28 AND 34 ORDER BY id

SELECT id FROM people WHERE age NOT BETWEEN 28 AND 34 ORDER BY id

SELECT id FROM people WHERE id IN (1, 2, 3) AND name NOT IN ('Bob') ORDER BY id

SELECT id FROM people WHERE name LIKE 'A%' OR name ILIKE 'b%' OR name RLIKE '^C' ORDER BY id

SELECT id FROM people WHERE name LIKE ANY ('A%', 'B%') ORDER BY id

SELECT id FROM people WHERE name NOT LIKE ALL ('A%', 'B%') ORDER BY id

SELECT id FROM people WHERE name LIKE '\_%' ESCAPE '\\'

SELECT id FROM people WHERE name LIKE '/_%' ESCAPE '/'

SELECT id FROM people WHERE (age, wage) = (34, 10.50) ORDER BY id

SELECT id FROM people WHERE (age, wage) IN ((34, 10.50), (28, 20.25)) ORDER BY id

SELECT id FROM people WHERE age <=> NULL

SELECT id FROM people WHERE age <> 34 AND age != 28 ORDER BY id

SELECT id FROM people WHERE is_member IS TRUE ORDER BY id

SELECT id FROM people WHERE is_member IS NOT FALSE ORDER BY id

SELECT id FROM people WHERE is_member IS UNKNOWN

SELECT id FROM people WHERE age IS DISTINCT FROM 34 ORDER BY id

SELECT id FROM people WHERE age IS NOT DISTINCT FROM NULL

SELECT id FROM people WHERE exists(SELECT 1 FROM sales WHERE person = id) ORDER BY id

SELECT id FROM people p WHERE NOT EXISTS (SELECT * FROM sales s WHERE s.person = p.id) ORDER BY id

SELECT id FROM people WHERE id IN (SELECT person FROM sales WHERE item = 'pen') ORDER BY id

SELECT id FROM people WHERE id NOT IN (SELECT person FROM sales WHERE person IS NOT NULL) ORDER BY id

SELECT id FROM people WHERE age = (SELECT max(age) FROM people)

SELECT id, (SELECT sum(units) FROM sales WHERE person = people.id) AS units FROM people ORDER BY id

SELECT (SELECT max(id) FROM people), (SELECT 1 WHERE FALSE)

SELECT id FROM people WHERE age = (SELECT age FROM people)

SELECT * FROM (SELECT id AS i FROM people) WHERE i > 3 ORDER BY i

SELECT * FROM (SELECT id FROM people) AS t(i) ORDER BY i

SELECT t.i FROM (SELECT id FROM people) t(i) ORDER BY t.i LIMIT 2

SELECT * FROM (people) ORDER BY id

SELECT * FROM (people JOIN sales ON id = person) ORDER BY ALL

(SELECT 1) UNION ALL (SELECT 2)

((SELECT 1))

FROM people SELECT id ORDER BY id

FROM people SELECT id WHERE id > 3 SELECT name WHERE id = 1

TABLE people

TABLE nothing

VALUES (1, 'a'), (2, 'b')

VALUES 1, 2, 3

SELECT * FROM VALUES (1, 'a'), (2, NULL) AS t(n, s) ORDER BY n

SELECT * FROM VALUES (1), (2.5), (NULL) ORDER BY 1

SELECT * FROM VALUES (1, 2), (3)

SELECT * FROM range(5)

SELECT * FROM range(0, 10, 3) AS r(n)

SELECT id % 2 AS odd, sum(id) FROM range(10) GROUP BY odd ORDER BY odd

SELECT * FROM explode(array(1, 2, 3))

SELECT * FROM explode(map('a', 1)) AS m(k, v)

SELECT * FROM people ORDER BY age DESC NULLS FIRST, name ASC NULLS LAST

SELECT * FROM people ORDER BY age + id, 2 DESC

SELECT id FROM people ORDER BY id LIMIT 2 OFFSET 1

SELECT id FROM people ORDER BY id OFFSET 3

SELECT id FROM people ORDER BY id LIMIT ALL

SELECT id FROM people ORDER BY id LIMIT 1 + 1

SELECT id FROM people ORDER BY id LIMIT -1

SELECT id FROM people SORT BY id LIMIT 0

SELECT id FROM people DISTRIBUTE BY id % 2 SORT BY id DESC

SELECT id FROM people CLUSTER BY id

SELECT age, count(*) AS n FROM people GROUP BY age HAVING n > 1

SELECT age, count(*) FROM people GROUP BY 1 ORDER BY 1

SELECT age, count(*) FROM people GROUP BY ALL ORDER BY ALL

SELECT region, year, sum(units) FROM sales GROUP BY region, year WITH ROLLUP ORDER BY ALL

SELECT region, year, sum(units) FROM sales GROUP BY region, year WITH CUBE ORDER BY ALL

SELECT region, year, sum(units) FROM sales GROUP BY ROLLUP (region, year) ORDER BY ALL

SELECT region, year, sum(units) FROM sales GROUP BY CUBE (region, year) ORDER BY ALL

SELECT region, year, sum(units) FROM sales GROUP BY GROUPING SETS ((region), (year), ()) ORDER BY ALL

SELECT region, year, sum(units), grouping(region), grouping_id() FROM sales GROUP BY GROUPING SETS ((region, year), ()) ORDER BY ALL

SELECT region, sum(units) FROM sales GROUP BY region, GROUPING SETS ((year), ()) ORDER BY ALL

SELECT region FROM sales GROUP BY year

SELECT sum(sum(units)) FROM sales

SELECT sum(units) FROM sales WHERE sum(units) > 1

SELECT first(item) IGNORE NULLS, last(region) RESPECT NULLS FROM (SELECT * FROM sales WHERE person = 1)

SELECT sort_array(collect_list(units)), array_sort(collect_set(item)) FROM sales

SELECT listagg(item, ',') WITHIN GROUP (ORDER BY item, units) FROM sales

SELECT string_agg(DISTINCT item, '-') WITHIN GROUP (ORDER BY item DESC) FROM sales

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY units), percentile_disc(0.5) WITHIN GROUP (ORDER BY units DESC) FROM sales

SELECT mode() WITHIN GROUP (ORDER BY item) FROM sales

SELECT max_by(item, units), min_by(item, units) FROM sales WHERE units <> 7

SELECT id FROM people UNION SELECT person FROM sales ORDER BY id

SELECT id FROM people UNION ALL SELECT person FROM sales ORDER BY id

SELECT id FROM people INTERSECT SELECT person FROM sales ORDER BY id

SELECT id FROM people INTERSECT ALL SELECT person FROM sales ORDER BY id

SELECT id FROM people EXCEPT SELECT person FROM sales ORDER BY id

SELECT id FROM people MINUS SELECT person FROM sales ORDER BY id

SELECT id FROM people EXCEPT ALL SELECT person FROM sales ORDER BY id

SELECT id FROM people UNION SELECT person FROM sales INTERSECT SELECT 1 ORDER BY id

(SELECT id FROM people UNION SELECT person FROM sales) EXCEPT SELECT 1 ORDER BY id

SELECT id FROM people UNION SELECT id, name FROM people

SELECT CAST(1 AS TINYINT) UNION ALL SELECT 2.5D UNION ALL SELECT NULL ORDER BY 1

SELECT * FROM people TABLESAMPLE (100 PERCENT) ORDER BY id

SELECT * FROM people TABLESAMPLE (3 ROWS) ORDER BY id

SELECT count(*) FROM range(100) TABLESAMPLE (BUCKET 1 OUT OF 1)

SELECT id FROM range(1000) TABLESAMPLE (10 PERCENT) REPEATABLE (7) ORDER BY id

SELECT CASE WHEN age > 30 THEN 'old' WHEN age > 20 THEN 'young' ELSE '?' END AS kind FROM people ORDER BY id

SELECT CASE age WHEN 34 THEN 1 WHEN 28 THEN 2 END FROM people ORDER BY id

SELECT IF(age > 30, 'a', 'b'), nvl(age, 0), coalesce(age, id), nullif(age, 34) FROM people ORDER BY id

SELECT CAST('1' AS INT), CAST(1 AS STRING), '2'::INT, TRY_CAST('x' AS INT), 1::STRING::INT

SELECT CAST('x' AS INT)

SELECT 1 / 0

SELECT try_divide(1, 0), 7 DIV 2, 7 % 2, mod(7, 2), -7 DIV 2, - - 3, +4

SELECT 1 & 3, 1 | 2, 1 ^ 3, ~1, 1 << 3, -8 >> 1, -8 >>> 60

SELECT 'a' || 'b' || NULL, concat('a', 'b'), 'a' = 'A'

SELECT TRUE AND NULL, FALSE OR NULL, NOT NULL, !TRUE

SELECT 1 = 1, 1 == 1, 1 <=> NULL, 1 != 2, 1 <> 2, 1 < 2, 1 <= 2, 2 > 1, 2 >= 1

SELECT 127 + 1Y

SELECT 1Y, 2S, 3, 4L, 5.5, 6.5D, 7.5F, 8.5BD, 1e3, 1E-3, .5, 5.

SELECT X'1F', x"ab", X''

SELECT DATE '2024-02-29', TIMESTAMP '2024-02-29 12:00:00.123456', TIMESTAMP_NTZ '2024-02-29 12:00:00', TIMESTAMP_LTZ '2024-02-29 12:00:00+02:00'

SELECT DATE '2024-02-30'

SELECT INTERVAL 1 DAY, INTERVAL '1-2' YEAR TO MONTH, INTERVAL '1 2:03:04.5' DAY TO SECOND, INTERVAL -3 HOURS

SELECT INTERVAL '1 day 2 hours', INTERVAL 1 YEAR 2 MONTHS

SELECT DATE '2024-01-31' + INTERVAL 1 MONTH, DATE '2024-03-01' - DATE '2024-02-01', DATE '2024-01-31' + 1

SELECT TIMESTAMP '2024-03-31 01:30:00' + INTERVAL 1 HOUR, TIMESTAMP '2024-01-02 00:00:00' - TIMESTAMP '2024-01-01 00:00:00'

SELECT TIMESTAMP '2024-01-01 00:00:00 Europe/Paris', TIMESTAMP '2024-01-01T00:00:00Z'

SELECT extract(YEAR FROM DATE '2024-02-29'), extract(DOW FROM DATE '2024-02-29'), date_part('WEEK', DATE '2024-02-29')

SELECT dateadd(DAY, 3, DATE '2024-02-28'), datediff(MONTH, DATE '2024-01-31', DATE '2024-03-01'), timestampadd(HOUR, 1, TIMESTAMP '2024-01-01 00:00:00')

SELECT date_trunc('MONTH', TIMESTAMP '2024-02-29 12:34:56'), trunc(DATE '2024-02-29', 'YEAR')

SELECT TIMESTAMP '2024-01-01 00:00:00' AT TIME ZONE 'Europe/Paris'

SELECT position('b' IN 'abc'), trim(BOTH 'x' FROM 'xaxx'), trim(LEADING FROM '  a '), trim(TRAILING 'a' FROM 'baa')

SELECT upper('straße'), lower('ÀÉ'), length('😀'), char_length('naïve'), octet_length('é'), reverse('añb')

SELECT 'a' COLLATE UTF8_LCASE = 'A', 'é' COLLATE UNICODE_CI_AI = 'E', collation('x' COLLATE UNICODE)

SELECT array(1, 2, 3)[0], map('a', 1)['a'], struct(1 AS a).a, named_struct('a', 1, 'b', array(2)).b[0]

SELECT numbers[0], named['a'], point.x, point.*, pairs.k, pairs[0].v FROM nested ORDER BY id

SELECT element_at(array(1, 2), 5)

SELECT array(1, 2)[9]

SELECT transform(numbers, x -> x + 1), filter(numbers, x -> x IS NOT NULL), aggregate(array(1, 2), 0, (a, x) -> a + x, a -> a * 10) FROM nested ORDER BY id

SELECT exists(numbers, x -> x > 10), forall(numbers, n -> n >= 0), zip_with(array(1), array(2), (a, b) -> a * b) FROM nested ORDER BY id

SELECT map_filter(named, (k, v) -> v > 1), transform_values(named, (k, v) -> v || k) FROM nested ORDER BY id

SELECT explode(numbers) FROM nested

SELECT id, posexplode(numbers) AS (i, n) FROM nested

SELECT id, inline(pairs) FROM nested

SELECT stack(2, 1, 'a', 2, 'b') AS (n, s)

SELECT id, n FROM nested LATERAL VIEW explode(numbers) t AS n ORDER BY ALL

SELECT id, n FROM nested LATERAL VIEW OUTER explode(filter(numbers, x -> x > 100)) t AS n ORDER BY id

SELECT id, k, v FROM nested LATERAL VIEW explode(named) AS k, v ORDER BY ALL

SELECT a, b FROM (SELECT 1) LATERAL VIEW explode(array(1, 2)) x AS a LATERAL VIEW explode(array(3, 4)) y AS b ORDER BY ALL

SELECT nested.id, t.col FROM nested, LATERAL explode(numbers) AS t(col) ORDER BY ALL

SELECT p.id, u.n FROM people p, LATERAL (SELECT sum(units) AS n FROM sales WHERE person = p.id) u ORDER BY p.id

SELECT p.id, u.item FROM people p LEFT JOIN LATERAL (SELECT item FROM sales WHERE person = p.id) u ORDER BY ALL

SELECT from_json('{"a": 1}', 'a INT').a, '{"a": {"b": 1}}':a.b, get_json_object('{"a": [1, 2]}', '$.a[1]')

SELECT parse_json('{"a": [1, {"b": "x"}]}'):a[1].b::string

SELECT variant_get(parse_json('{"a": 1}'), '$.a', 'int')

SELECT * FROM people p JOIN sales s ON p.id = s.person ORDER BY ALL

SELECT * FROM people p INNER JOIN sales s ON p.id = s.person AND s.units > 2 ORDER BY ALL

SELECT * FROM people p LEFT OUTER JOIN sales s ON p.id = s.person ORDER BY ALL

SELECT * FROM people p RIGHT JOIN sales s ON p.id = s.person ORDER BY ALL

SELECT * FROM people p FULL OUTER JOIN sales s ON p.id = s.person ORDER BY ALL

SELECT * FROM people p LEFT SEMI JOIN sales s ON p.id = s.person ORDER BY ALL

SELECT * FROM people p SEMI JOIN sales s ON p.id = s.person ORDER BY ALL

SELECT * FROM people p LEFT ANTI JOIN sales s ON p.id = s.person ORDER BY ALL

SELECT * FROM people p ANTI JOIN sales s ON p.id = s.person ORDER BY ALL

SELECT count(*) FROM people CROSS JOIN sales

SELECT count(*) FROM people, sales

SELECT count(*) FROM people, sales WHERE id = person

SELECT * FROM people NATURAL JOIN (SELECT id, 'x' AS mark FROM range(3)) ORDER BY id

SELECT * FROM people JOIN (SELECT id, 1 AS one FROM range(3)) USING (id) ORDER BY id

SELECT * FROM people a JOIN people b USING (id, name) ORDER BY id

SELECT a.id, b.id FROM people a JOIN people b ON a.age = b.age AND a.id < b.id

SELECT id FROM people a JOIN people b ON a.id = b.id

SELECT * FROM people p JOIN sales s

SELECT /*+ BROADCAST(s) */ count(*) FROM people p JOIN sales s ON p.id = s.person

SELECT /*+ MERGE(p), SHUFFLE_HASH(s) */ count(*) FROM people p JOIN sales s ON p.id = s.person

SELECT /*+ REPARTITION(3) */ id FROM people ORDER BY id

SELECT /*+ COALESCE(1) */ id FROM people ORDER BY id

SELECT /*+ REBALANCE */ id FROM people ORDER BY id

SELECT /*+ NO_SUCH_HINT(x) */ id FROM people ORDER BY id

SELECT /*+ REPARTITION(0) */ id FROM people

SELECT /*+ MAPJOIN(delta) */ count(*) FROM people delta JOIN sales s ON delta.id = s.person

WITH a AS (SELECT 1 AS x) SELECT * FROM a

WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b

WITH a(x, y) AS (SELECT 1, 2) SELECT y, x FROM a

WITH people AS (SELECT 42 AS id) SELECT * FROM people

WITH a AS (WITH b AS (SELECT 1 AS x) SELECT * FROM b) SELECT * FROM a

SELECT * FROM (WITH a AS (SELECT 1 AS x) SELECT * FROM a)

WITH a AS (SELECT 1), a AS (SELECT 2) SELECT * FROM a

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT * FROM n ORDER BY i

WITH RECURSIVE r AS (VALUES (0) UNION ALL SELECT col1 + 1 FROM r WHERE col1 < 3) SELECT * FROM r ORDER BY 1

WITH a AS (SELECT id FROM people) SELECT id FROM a WHERE id IN (WITH b AS (SELECT 2 AS id) SELECT id FROM b)

SELECT id, row_number() OVER (ORDER BY id) AS n FROM people ORDER BY id

SELECT person, rank() OVER (PARTITION BY region ORDER BY units DESC) AS r FROM sales ORDER BY ALL

SELECT person, sum(units) OVER (PARTITION BY person ORDER BY year ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM sales ORDER BY ALL

SELECT person, avg(price) OVER (ORDER BY units ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a FROM sales ORDER BY ALL

SELECT person, sum(units) OVER (ORDER BY year RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM sales ORDER BY ALL

SELECT person, lag(units, 1, 0) OVER w AS l, lead(units) OVER w AS f FROM sales WINDOW w AS (PARTITION BY item ORDER BY year, units) ORDER BY ALL

SELECT person, ntile(2) OVER (ORDER BY units), percent_rank() OVER (ORDER BY units), cume_dist() OVER (ORDER BY units) FROM sales ORDER BY ALL

SELECT person, first_value(region) IGNORE NULLS OVER (ORDER BY units DESC) FROM sales ORDER BY ALL

SELECT person, nth_value(item, 2) OVER (PARTITION BY year ORDER BY units) FROM sales ORDER BY ALL

SELECT item, sum(units) FILTER (WHERE year = 2025) OVER (PARTITION BY item) FROM sales ORDER BY ALL

SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY item ORDER BY units DESC) AS n FROM sales) WHERE n = 1 ORDER BY item

SELECT item FROM sales QUALIFY row_number() OVER (PARTITION BY item ORDER BY units DESC) = 1

SELECT row_number() OVER () FROM people

SELECT * FROM sales PIVOT (sum(units) FOR item IN ('pen', 'ink')) ORDER BY ALL

SELECT * FROM (SELECT item, year, units FROM sales) PIVOT (sum(units) AS s, max(units) AS m FOR year IN (2024 AS y24, 2025 AS y25)) ORDER BY item

SELECT * FROM (SELECT 1 AS id, 2 AS a, 3 AS b) UNPIVOT (v FOR k IN (a, b)) ORDER BY k

SELECT * FROM (SELECT 1 AS id, 2 AS a, NULL AS b) UNPIVOT INCLUDE NULLS (v FOR k IN (a AS x, b AS y)) ORDER BY k

FROM people |> SELECT id, name |> WHERE id > 2 |> ORDER BY id

FROM people |> EXTEND age * 2 AS twice |> DROP born, wage |> SET name = upper(name) |> ORDER BY id

FROM sales |> AGGREGATE sum(units) AS n GROUP BY item |> ORDER BY item

FROM sales |> AS s |> JOIN people p ON s.person = p.id |> SELECT p.name, s.item |> ORDER BY ALL

FROM people |> SELECT id |> UNION ALL (SELECT person FROM sales) |> ORDER BY id |> LIMIT 3

TABLE sales |> PIVOT (sum(units) FOR item IN ('pen', 'ink')) |> ORDER BY ALL

FROM people |> RENAME id AS number |> ORDER BY number

FROM people |> WHERE nope = 1

SELECT id AS a, a + 1 AS b, b * 2 AS c FROM people ORDER BY id

SELECT id FROM people WHERE id = 1 OR
  -- a comment in between, with a quote that's open
  id = 2
ORDER BY id

SELECT
	id	,
	name
FROM
	people
ORDER	BY	id

SELECT`id`FROM`people`ORDER BY`id`

SELECT(1)+(2)AS three

SELECT 1 AS a--comment

SELECT 1 AS a/**/,2 AS b

SELECT 1 /* a */ + /* b */ 2 -- c

SELECT 5 - -3, 5--3

SELECT * FROM `odd name`

SELECT `a column`, `dotted.name`, `back``tick`, `Größe` FROM `odd name`

SELECT `odd name`.`a column` FROM `odd name`

SELECT dotted.name FROM `odd name`

SELECT Größe FROM `odd name`

SELECT `GRÖSSE` FROM `odd name`

SELECT ID, Name, PEOPLE.iD FROM PEOPLE ORDER BY Id

SELECT 1 AS `日本語`, 2 AS `😀`, 3 AS `a b`, 4 AS ``

SELECT '日本語', '😀', '\u00e9', '\U0001F600', '\x41', '\101', '\n\t\\\'\"\0', '\%\_'

SELECT r'\n\t', R"\d+", r'C:\data', 'C:\\data'

SELECT 'it''s', "it's", 'say "x"', "say ""x""", 'a\'b'

SELECT 'two
lines', "and
three
lines"

SELECT '-- no comment', '/* nor this */', ';', 'a;b', '`', '$x', '${y}', '{z}', ':p', '?'

SELECT '' = "", ' ', '	'

SELECT N'x'

SELECT "id" FROM people ORDER BY 1

SELECT 'unclosed

SELECT `unclosed

SELECT /* unclosed

SELECT 1 AS 1a

SELECT 1 AS select

SELECT 1 AS `select`, 2 AS from

SELECT a.b.c.d.e FROM people

SELECT 1a, 1_000

SELECT 99999999999999999999, 99999999999999999999999999999999999999, 1e400D

SELECT 9223372036854775807, -9223372036854775808, 9223372036854775808

SELECT NULL, null::INT, CAST(NULL AS STRUCT<a: INT, b: ARRAY<STRING>>)

SELECT CAST(map('a', 1) AS MAP<STRING, BIGINT>), CAST(struct(1, 'x') AS STRUCT<p: BIGINT, q: STRING NOT NULL>)

SELECT typeof(1), typeof(1L), typeof(1.0), typeof(array(1Y)), typeof(NULL), typeof(INTERVAL 1 DAY), typeof(current_date())

SELECT nothing.* FROM nothing

SELECT max(id) FROM nothing

SELECT count(*) FROM nothing GROUP BY name

SELECT * FROM people WHERE born = '1990-02-28' ORDER BY id

SELECT * FROM people WHERE id = '1'

SELECT * FROM people WHERE id = 'one'

SELECT * FROM people WHERE name = 1

SELECT sum(wage), typeof(sum(wage)), avg(wage), typeof(avg(wage)) FROM people

SELECT hash(*), xxhash64(*) FROM people ORDER BY 1

SELECT struct(*) FROM people ORDER BY id

SELECT to_json(struct(*)) FROM people ORDER BY id

SELECT any_value(name) FROM people WHERE id = 1

SELECT count(*), count(DISTINCT age, wage) FROM people

SELECT every(id > 0), some(id > 4), bool_and(is_member), bool_or(is_member) FROM people

SELECT raise_error('stopped here')

SELECT assert_true(1 = 2, 'never')

SELECT id FROM people WHERE raise_error('in a filter') IS NULL

SELECT ceil(5.4), floor(-5.4), ceil(3.14, 1), round(2.5), bround(2.5), round(-1.55, 1)

SELECT make_date(2024, 13, 1)

SELECT to_date('2024-13-01'), to_timestamp('x')

SELECT date_format(DATE '2024-02-29', 'yyyy MMM EEE'), date_format(DATE '2024-02-29', 'no pattern')

SELECT split('a,b,c', ','), split_part('a.b.c', '.', 2), regexp_extract('a1b2', '(\\d)', 1), regexp_replace('a1b2', r'\d', '#')

SELECT sequence(1, 5), sequence(DATE '2024-01-01', DATE '2024-03-01', INTERVAL 1 MONTH), flatten(array(array(1), array(2)))

SELECT ANY_VALUE(a) FROM VALUES (1) t(a)

SELECT grouping(name) FROM people GROUP BY name

SELECT id FROM people GROUP BY id HAVING count(*) > 1

SELECT id FROM people HAVING id > 1

SELECT 1 FROM people LIMIT 1

SELECT 1 WHERE 1 = 0

SELECT 1 GROUP BY ()

SELECT 'x' AS a UNION ALL SELECT 'y' ORDER BY a DESC LIMIT 1

SELECT * FROM (SELECT 1 AS a UNION ALL SELECT 2) t JOIN (VALUES (1), (2)) AS v(b) ON t.a = v.b ORDER BY a

SELECT IDENTIFIER('id') FROM IDENTIFIER('people') ORDER BY 1

SELECT IDENTIFIER('up' || 'per')('x')

SELECT * FROM IDENTIFIER('no' || '_table')

SELECT session_window.start, count(*) FROM VALUES (TIMESTAMP '2024-01-01 00:00:00'), (TIMESTAMP '2024-01-01 00:01:00') AS t(ts) GROUP BY session_window(ts, '5 minutes')

SELECT window.start, sum(n) FROM VALUES (TIMESTAMP '2024-01-01 00:00:00', 1), (TIMESTAMP '2024-01-01 00:07:00', 2) AS t(ts, n) GROUP BY window(ts, '5 minutes') ORDER BY 1

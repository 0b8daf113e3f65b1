CREATE OR REPLACE TEMPORARY VIEW people AS SELECT * FROM VALUES
  (1, 'Ann', 34, DATE '1990-02-28', 10.50BD, TRUE),
  (2, 'Bob', 28, DATE '1996-07-01', 20.25BD, FALSE),
  (3, 'Cem', NULL, DATE '2000-12-31', NULL, TRUE),
  (4, 'Dörte', 51, NULL, 7.00BD, NULL),
  (5, 'Émile', 34, DATE '1990-02-28', 10.50BD, FALSE)
  AS people(id, name, age, born, wage, is_member)

CREATE OR REPLACE TEMPORARY VIEW sales AS SELECT * FROM VALUES
  (1, 'pen', 'north', 2024, 3, 1.50D),
  (1, 'ink', 'south', 2024, 1, 9.00D),
  (2, 'pen', 'north', 2025, 7, 1.60D),
  (2, 'pad', 'west', 2025, 2, 4.00D),
  (3, 'pen', 'south', 2025, 5, 1.60D),
  (9, 'ink', NULL, 2024, 4, 9.50D)
  AS sales(person, item, region, year, units, price)

CREATE OR REPLACE TEMPORARY VIEW nested AS SELECT
  id, array(id, id * 10, NULL) AS numbers, map('a', id, 'b', id + 1) AS named, struct(id AS x, 'p' || id AS y) AS point,
  array(struct(id AS k, 'v' AS v)) AS pairs
  FROM range(3)

CREATE OR REPLACE TEMPORARY VIEW nothing AS SELECT 1 AS id, 'x' AS name WHERE FALSE

CREATE OR REPLACE TEMPORARY VIEW `odd name` AS SELECT 1 AS `a column`, 2 AS `dotted.name`, 3 AS `back``tick`, 4 AS `Größe`

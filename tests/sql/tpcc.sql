-- The nine tables of TPC-C, a few rows of them, edits, and queries as people write them over such tables.

-- schema
CREATE TABLE warehouse (w_id INTEGER PRIMARY KEY, w_name VARCHAR(10), w_street_1 VARCHAR(20), w_city VARCHAR(20),
  w_state CHAR(2), w_zip CHAR(9), w_tax DECIMAL(4,4), w_ytd DECIMAL(12,2));
CREATE TABLE district (d_id INTEGER, d_w_id INTEGER, d_name VARCHAR(10), d_city VARCHAR(20), d_state CHAR(2),
  d_tax DECIMAL(4,4), d_ytd DECIMAL(12,2), d_next_o_id INTEGER, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_id INTEGER, c_d_id INTEGER, c_w_id INTEGER, c_first VARCHAR(16), c_middle CHAR(2),
  c_last VARCHAR(16), c_city VARCHAR(20), c_state CHAR(2), c_phone CHAR(16), c_since TIMESTAMP, c_credit CHAR(2),
  c_credit_lim DECIMAL(12,2), c_discount DECIMAL(4,4), c_balance DECIMAL(12,2), c_ytd_payment DECIMAL(12,2),
  c_payment_cnt INTEGER, c_delivery_cnt INTEGER, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE TABLE history (h_c_id INTEGER, h_c_d_id INTEGER, h_c_w_id INTEGER, h_d_id INTEGER, h_w_id INTEGER,
  h_date TIMESTAMP, h_amount DECIMAL(6,2), h_data VARCHAR(24));
CREATE TABLE new_order (no_o_id INTEGER, no_d_id INTEGER, no_w_id INTEGER,
  PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE orders (o_id INTEGER, o_d_id INTEGER, o_w_id INTEGER, o_c_id INTEGER, o_entry_d TIMESTAMP,
  o_carrier_id INTEGER, o_ol_cnt INTEGER, o_all_local INTEGER, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE order_line (ol_o_id INTEGER, ol_d_id INTEGER, ol_w_id INTEGER, ol_number INTEGER, ol_i_id INTEGER,
  ol_supply_w_id INTEGER, ol_delivery_d TIMESTAMP, ol_quantity INTEGER, ol_amount DECIMAL(6,2),
  ol_dist_info CHAR(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE item (i_id INTEGER PRIMARY KEY, i_im_id INTEGER, i_name VARCHAR(24), i_price DECIMAL(5,2),
  i_data VARCHAR(50));
CREATE TABLE stock (s_i_id INTEGER, s_w_id INTEGER, s_quantity INTEGER, s_dist_01 CHAR(24), s_ytd DECIMAL(8,2),
  s_order_cnt INTEGER, s_remote_cnt INTEGER, s_data VARCHAR(50), PRIMARY KEY (s_w_id, s_i_id));

-- rows
INSERT INTO warehouse VALUES (1, 'one', 'a', 'ulm', 'BY', '1', 0.1000, 100.50), (2, 'two', NULL, 'bonn', 'NW', '2', 0.0500, 20);
INSERT INTO district VALUES (1, 1, 'd11', 'ulm', 'BY', 0.1, 10.5, 4), (2, 1, 'd12', NULL, 'BY', 0.2, 0, 2), (1, 2, 'd21', 'bonn', 'NW', NULL, 7, 3);
INSERT INTO customer VALUES (1, 1, 1, 'Ada', 'OE', 'BAR', 'ulm', 'BY', '1', '2020-01-01 10:00:00', 'GC', 500, 0.1, -10, 10, 1, 0, 'x'),
  (2, 1, 1, 'Bob', 'OE', 'BAR', 'bonn', 'NW', '2', '2020-02-01 10:00:00', 'BC', 100, 0.2, 25.5, 10, 2, 0, NULL),
  (1, 2, 1, 'Cy', NULL, 'ABLE', 'ulm', 'BY', NULL, NULL, 'GC', 500, 0, 0, 10, 1, 1, 'y'),
  (1, 1, 2, 'Di', 'OE', 'PRI', 'bonn', 'NW', '4', '2020-03-05 11:30:00', NULL, NULL, 0.3, 99.99, 0, 0, 0, 'z');
INSERT INTO history VALUES (1, 1, 1, 1, 1, '2020-01-02', 10, 'p'), (1, 1, 1, 1, 1, '2020-01-02', 10, 'p'),
  (2, 1, 1, 1, 1, '2020-01-03', 5.5, NULL), (1, 1, 2, 1, 2, NULL, 7, 'q');
INSERT INTO new_order VALUES (2, 1, 1), (3, 1, 1), (1, 1, 2);
INSERT INTO orders VALUES (1, 1, 1, 1, '2020-01-05 09:00:00', 3, 2, 1), (2, 1, 1, 2, '2020-01-06 12:00:00', NULL, 1, 1),
  (3, 1, 1, 1, '2020-02-07 12:00:00', NULL, 1, 0), (1, 2, 1, 1, '2020-02-09 12:00:00', 5, 1, 1), (1, 1, 2, 1, '2020-03-07', NULL, 2, 1);
INSERT INTO order_line VALUES (1, 1, 1, 1, 1, 1, '2020-01-06', 5, 20.00, 'i'), (1, 1, 1, 2, 2, 1, '2020-01-06', 2, 9.90, 'i'),
  (2, 1, 1, 1, 1, 2, NULL, 1, 4.00, 'j'), (3, 1, 1, 1, 3, 1, NULL, 7, 70.00, 'j'), (1, 2, 1, 1, 2, 1, '2020-02-10', 5, 24.75, NULL),
  (1, 1, 2, 1, 1, 2, NULL, 5, 20.00, 'k'), (1, 1, 2, 2, 3, 2, NULL, 3, 30.00, 'k');
INSERT INTO item VALUES (1, 10, 'tea', 4.00, 'ORIGINAL'), (2, 10, 'cake', 4.95, 'plain'), (3, 11, 'pot', 10.00, NULL), (4, NULL, 'cup', 2.50, 'x');
INSERT INTO stock VALUES (1, 1, 12, 'd', 5, 1, 0, 'ORIGINAL'), (2, 1, 40, 'd', 0, 0, 0, 'x'), (3, 1, NULL, 'd', 7, 2, 1, 'x'),
  (1, 2, 9, NULL, 5, 1, 0, 'y');

-- edits
UPDATE customer SET c_balance = c_balance + 10, c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = 1 AND c_d_id = 1;
INSERT INTO history VALUES (1, 1, 1, 1, 1, '2020-01-02', 10, 'p');
DELETE FROM order_line WHERE ol_i_id = 2;
UPDATE orders SET o_carrier_id = 7 WHERE o_carrier_id IS NULL AND o_w_id = 1;
INSERT INTO orders VALUES (4, 1, 1, 2, '2020-04-01 08:00:00', NULL, 1, 1);
INSERT INTO order_line VALUES (4, 1, 1, 1, 4, 1, NULL, 9, 22.50, 'n');
UPDATE stock SET s_quantity = s_quantity - 5 WHERE s_w_id = 1;
DELETE FROM district WHERE d_id = 2;
UPDATE warehouse SET w_ytd = NULL, w_state = 'NW' WHERE w_id = 1;
DELETE FROM history WHERE h_amount = 10;
INSERT INTO warehouse VALUES (3, 'three', NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE item SET i_price = i_price * 2 WHERE i_name LIKE 't%';
DELETE FROM customer WHERE c_w_id = 2;
UPDATE customer SET c_id = c_id + 10 WHERE c_w_id = 1;

-- queries
SELECT w_id, w_name, w_ytd FROM warehouse WHERE w_ytd > 50;
SELECT W_STATE, COUNT(*), SUM(W_YTD), AVG(W_TAX) FROM WAREHOUSE GROUP BY W_STATE;
SELECT d_w_id, SUM(d_ytd) AS total, MAX(d_next_o_id) - MIN(d_next_o_id) AS spread FROM district GROUP BY d_w_id HAVING SUM(d_ytd) > 5;
SELECT c_last, COUNT(*) AS cnt, SUM(c_balance) AS bal FROM customer WHERE c_credit = 'GC' GROUP BY c_last;
SELECT c.c_id, c.c_last, o.o_id, o.o_entry_d FROM customer c JOIN orders o ON c.c_w_id = o.o_w_id AND c.c_d_id = o.o_d_id AND c.c_id = o.o_c_id;
SELECT c.c_last, COUNT(o.o_id) AS orders FROM customer c LEFT JOIN orders o ON c.c_w_id = o.o_w_id AND c.c_d_id = o.o_d_id AND c.c_id = o.o_c_id GROUP BY c.c_last;
SELECT ol_w_id, ol_d_id, ol_o_id, SUM(ol_amount) AS revenue, COUNT(DISTINCT ol_i_id) AS items FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id;
SELECT i.i_name, SUM(ol.ol_quantity * i.i_price) AS value FROM order_line ol JOIN item i ON ol.ol_i_id = i.i_id GROUP BY i.i_name;
SELECT DISTINCT c_state, c_credit FROM customer;
SELECT s_w_id, COUNT(*) FILTER (WHERE s_quantity < 15) AS low, COUNT(*) AS n FROM stock GROUP BY s_w_id;
SELECT h_w_id, SUM(h_amount), COUNT(*), AVG(h_amount), MIN(h_date) FROM history GROUP BY h_w_id;
SELECT * FROM history;
SELECT h_amount, h_data FROM history WHERE h_data IS NOT NULL;
SELECT o_w_id, o_d_id, o_id, ROW_NUMBER() OVER (PARTITION BY o_w_id, o_d_id ORDER BY o_entry_d DESC, o_id) AS rn FROM orders;
SELECT c_w_id, c_d_id, c_id, RANK() OVER (PARTITION BY c_w_id ORDER BY c_balance DESC) AS r, SUM(c_balance) OVER (PARTITION BY c_w_id, c_d_id) AS s FROM customer;
SELECT o_w_id, o_d_id, o_id, LAG(o_entry_d) OVER (PARTITION BY o_w_id, o_d_id ORDER BY o_id) AS prev FROM orders;
SELECT w_id, COALESCE(w_ytd, 0) + 1 AS y, CASE WHEN w_tax > 0.07 THEN 'high' WHEN w_tax IS NULL THEN 'none' ELSE 'low' END AS t FROM warehouse;
SELECT * FROM (SELECT c_w_id, c_d_id, COUNT(*) AS n FROM customer GROUP BY c_w_id, c_d_id) t WHERE n > 1;
WITH big AS (SELECT ol_w_id, ol_o_id, SUM(ol_amount) AS amt FROM order_line GROUP BY ol_w_id, ol_o_id) SELECT ol_w_id, MAX(amt) AS m, COUNT(*) AS n FROM big WHERE amt > 10 GROUP BY ol_w_id;
SELECT w.w_id, (SELECT COUNT(*) FROM district d WHERE d.d_w_id = w.w_id) AS districts FROM warehouse w;
SELECT i_id, i_name FROM item WHERE i_id NOT IN (SELECT ol_i_id FROM order_line);
SELECT i_id FROM item i WHERE EXISTS (SELECT 1 FROM stock s WHERE s.s_i_id = i.i_id AND s.s_quantity < 20);
SELECT c_id, c_balance FROM customer WHERE c_balance > (SELECT AVG(c_balance) FROM customer);
SELECT w_state AS s FROM warehouse UNION SELECT c_state FROM customer;
SELECT w_id AS id FROM warehouse UNION ALL SELECT d_w_id FROM district;
SELECT i_im_id, ROUND(AVG(i_price), 2) AS p, STDDEV(i_price) AS sd, VARIANCE(i_price) AS v FROM item GROUP BY i_im_id;
SELECT UPPER(c_last) AS l, LENGTH(c_first) AS n, SUBSTRING(c_last, 1, 2) AS s, c_first || ' ' || c_last AS full_name FROM customer;
SELECT EXTRACT(YEAR FROM o_entry_d) AS y, EXTRACT(MONTH FROM o_entry_d) AS m, COUNT(*) FROM orders GROUP BY 1, 2;
SELECT DATE_TRUNC('month', o_entry_d) AS m, COUNT(*) AS n FROM orders GROUP BY DATE_TRUNC('month', o_entry_d);
SELECT w.w_name, d.d_name, SUM(o.o_ol_cnt) AS lines FROM warehouse w LEFT JOIN district d ON d.d_w_id = w.w_id LEFT JOIN orders o ON o.o_w_id = d.d_w_id AND o.o_d_id = d.d_id GROUP BY w.w_name, d.d_name;
SELECT w.w_id, d.d_id FROM warehouse w FULL OUTER JOIN district d ON w.w_id = d.d_w_id AND d.d_ytd > 5;
SELECT CAST(w_id AS VARCHAR) AS w, CAST(w_ytd AS INTEGER) AS y, CAST(w_tax AS DOUBLE) AS t FROM warehouse;
SELECT o_carrier_id, COUNT(*) FROM orders GROUP BY o_carrier_id;
SELECT o_w_id, o_d_id, o_id FROM orders ORDER BY o_entry_d DESC, o_id LIMIT 3;
SELECT c_state, c_credit, COUNT(*) AS n, SUM(c_balance) AS b FROM customer GROUP BY ROLLUP (c_state, c_credit);
SELECT c_w_id, MEDIAN(c_balance) AS m FROM customer GROUP BY c_w_id;
SELECT SUM(CASE WHEN o_carrier_id IS NULL THEN 1 ELSE 0 END) AS open, COUNT(*) AS n FROM orders;
SELECT ol_i_id, SUM(ol_amount) / SUM(ol_quantity) AS unit FROM order_line GROUP BY ol_i_id;
SELECT s.s_w_id, s.s_i_id, s.s_quantity, i.i_name FROM stock s, item i WHERE s.s_i_id = i.i_id AND (s.s_quantity < 10 OR i.i_price > 5);
SELECT c_d_id, c_w_id, NTILE(2) OVER (ORDER BY c_balance, c_w_id, c_d_id, c_id) AS q, DENSE_RANK() OVER (ORDER BY c_credit) AS d FROM customer;
SELECT o.o_w_id, o.o_id, SUM(ol.ol_amount) AS t FROM orders o JOIN order_line ol ON ol.ol_w_id = o.o_w_id AND ol.ol_d_id = o.o_d_id AND ol.ol_o_id = o.o_id WHERE o.o_entry_d >= '2020-01-06' GROUP BY o.o_w_id, o.o_id HAVING SUM(ol.ol_amount) > 5;
SELECT d_id, COUNT(*) FROM district, warehouse WHERE d_w_id = w_id AND d_tax BETWEEN 0.05 AND 0.15 GROUP BY d_id;
SELECT c_last, c_first FROM customer WHERE c_last LIKE 'BA%' AND c_since > TIMESTAMP '2019-12-31';
SELECT MAX(cnt) AS m FROM (SELECT COUNT(*) AS cnt FROM orders GROUP BY o_c_id) x;
SELECT COUNT(*) FROM new_order;
SELECT no_w_id, no_d_id, COUNT(*) AS n, MIN(no_o_id) AS first_open FROM new_order GROUP BY no_w_id, no_d_id;
SELECT n.no_o_id, o.o_c_id FROM new_order n LEFT JOIN orders o ON n.no_w_id = o.o_w_id AND n.no_d_id = o.o_d_id AND n.no_o_id = o.o_id;
SELECT i_name, LOWER(i_data) AS data, NULLIF(i_im_id, 10) AS im, GREATEST(i_price, 5) AS g FROM item;
SELECT c_w_id, c_credit, SUM(c_balance) AS b, RANK() OVER (PARTITION BY c_w_id ORDER BY SUM(c_balance) DESC) AS r FROM customer GROUP BY c_w_id, c_credit;
SELECT o_w_id, o_id, o_ol_cnt, SUM(o_ol_cnt) OVER (PARTITION BY o_w_id ORDER BY o_entry_d ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run FROM orders;
SELECT w_id FROM warehouse WHERE w_id IN (SELECT d_w_id FROM district GROUP BY d_w_id HAVING COUNT(*) > 1);
SELECT d.d_w_id, d.d_id FROM district d WHERE NOT EXISTS (SELECT 1 FROM customer c WHERE c.c_w_id = d.d_w_id AND c.c_d_id = d.d_id);
SELECT TRIM(c_middle) AS m, CONCAT(c_first, '-', c_last) AS n, LEFT(c_last, 1) AS l FROM customer;
SELECT c_credit, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM customer) AS pct FROM customer GROUP BY c_credit;
SELECT a.c_id, b.c_id AS other FROM customer a JOIN customer b ON a.c_state = b.c_state AND a.c_id < b.c_id;
SELECT s_i_id, SUM(s_quantity) AS q, BOOL_OR(s_quantity < 10) AS low FROM stock GROUP BY s_i_id;
SELECT w_id, GENERATE_SERIES FROM warehouse, GENERATE_SERIES(1, 2);
SELECT x.g, COUNT(*) AS n FROM UNNEST([1, 2, 3]) AS x(g) JOIN district d ON d.d_id = x.g GROUP BY x.g;
SELECT ABS(c_balance) AS a, CEIL(c_balance) AS c, FLOOR(c_balance) AS f, ROUND(c_balance, 1) AS r FROM customer;
SELECT o_entry_d + INTERVAL 1 DAY AS next_day, CAST(o_entry_d AS DATE) AS d FROM orders;
SELECT DATE_DIFF('day', o_entry_d, TIMESTAMP '2020-06-01') AS days FROM orders;
SELECT c_w_id, STRING_AGG(c_last, ',' ORDER BY c_id, c_d_id) AS names FROM customer GROUP BY c_w_id;
SELECT ol_w_id, FIRST_VALUE(ol_amount) OVER (PARTITION BY ol_w_id ORDER BY ol_d_id, ol_o_id, ol_number) AS f FROM order_line;
WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT n.x, COUNT(w_id) AS c FROM n LEFT JOIN warehouse ON w_id = n.x GROUP BY n.x;
SELECT c_w_id, COUNT(*) AS n FROM customer GROUP BY c_w_id EXCEPT SELECT w_id, 1 FROM warehouse;
SELECT i_price, COUNT(*) FROM item WHERE i_price IS DISTINCT FROM 4.00 GROUP BY i_price;
SELECT * FROM stock WHERE s_data LIKE '%ORIGINAL%';
SELECT w.*, d.d_name FROM warehouse w JOIN district d ON w.w_id = d.d_w_id;
SELECT c_w_id, c_state, SUM(c_balance) FROM customer GROUP BY GROUPING SETS ((c_w_id), (c_state), ());
SELECT o_c_id, MIN(o_entry_d) AS first_order, MAX(o_entry_d) AS last_order, COUNT(*) AS n FROM orders WHERE o_all_local = 1 GROUP BY o_c_id ORDER BY n DESC;
SELECT * FROM customer WHERE c_credit = 'BC';
SELECT MD5(c_last) AS h, LPAD(c_last, 6, '*') AS p, POWER(c_id, 2) AS sq, SQRT(c_id) AS rt, LN(c_id) AS l FROM customer;
SELECT c_id, QUANTILE_CONT(c_balance, 0.5) OVER () AS q FROM customer;
SELECT c_w_id, CORR(c_balance, c_ytd_payment) AS r FROM customer GROUP BY c_w_id;
SELECT c_w_id, ARRAY_AGG(c_id ORDER BY c_id, c_d_id) AS ids FROM customer GROUP BY c_w_id;
SELECT w_id, d.n FROM warehouse w, LATERAL (SELECT COUNT(*) AS n FROM district d WHERE d.d_w_id = w.w_id) d;
SELECT c_w_id, c_d_id, c_id FROM customer QUALIFY ROW_NUMBER() OVER (PARTITION BY c_w_id ORDER BY c_balance DESC, c_id, c_d_id) = 1;
SELECT h.h_w_id, w.w_name, SUM(h.h_amount) AS t FROM history h JOIN warehouse w ON h.h_w_id = w.w_id GROUP BY h.h_w_id, w.w_name;
SELECT h_c_id, STDDEV(h_amount) AS s, MEDIAN(h_amount) AS m FROM history GROUP BY h_c_id;
SELECT h_w_id, h_amount, ROW_NUMBER() OVER (PARTITION BY h_w_id ORDER BY h_amount) AS r FROM history;
SELECT c_id FROM customer c WHERE c_balance >= ALL (SELECT c_balance FROM customer d WHERE d.c_w_id = c.c_w_id);
SELECT c.*, o.o_id FROM customer c JOIN orders o ON c.c_id = o.o_c_id AND c.c_w_id = o.o_w_id AND c.c_d_id = o.o_d_id;
SELECT * FROM customer c JOIN district d ON c.c_w_id = d.d_w_id AND c.c_d_id = d.d_id JOIN warehouse w ON w.w_id = d.d_w_id;
SELECT CONCAT(w_city, ', ', w_state) AS place, CONCAT_WS('-', w_city, w_state, w_zip) AS ws, CONCAT_WS(w_zip, w_city, w_name) AS x FROM warehouse;
SELECT CAST(c_balance AS DECIMAL(10,1)) AS d, CAST(c_discount AS FLOAT) AS f, CAST(c_id AS DECIMAL(8,2)) AS i, CAST(c_id AS DOUBLE) / 3 AS t FROM customer;
SELECT w_id, x.m FROM warehouse w LEFT JOIN LATERAL (SELECT MAX(d_ytd) AS m FROM district WHERE d_w_id = w.w_id) x ON TRUE;
SELECT CAST(c_discount AS FLOAT) * CAST(c_balance AS FLOAT) AS p, CAST(c_discount AS REAL) + 1 AS q, CAST(c_discount AS FLOAT) = 0.1 AS e, CAST('0.1' AS FLOAT) AS l, ROUND(CAST(c_discount AS FLOAT), 1) AS r FROM customer;
SELECT c_w_id, SUM(CAST(c_discount AS FLOAT)) AS s, AVG(c_discount::REAL) AS a, MAX(c_discount::REAL) AS m, COALESCE(SUM(c_discount::REAL), 0) AS z, STDDEV(c_discount::FLOAT) AS sd FROM customer GROUP BY c_w_id;
SELECT c_id, COALESCE(CAST(c_discount AS FLOAT), 0.5) AS a, GREATEST(CAST(c_discount AS FLOAT), 0) AS g, -CAST(c_discount AS FLOAT) AS n, CASE WHEN c_id > 1 THEN CAST(c_discount AS FLOAT) ELSE 0 END AS ca, CAST(c_discount AS FLOAT) / 3 AS dv FROM customer;
SELECT c_id FROM customer WHERE CAST(c_discount AS FLOAT) > 0.1;
SELECT c_id, CAST(c_discount AS FLOAT)::VARCHAR FROM customer;
SELECT c_id, CAST(c_discount AS FLOAT) BETWEEN 0.1 AND 0.2 AS b, CAST(c_discount AS FLOAT) > CAST(0.1 AS DOUBLE) AS d, CAST(c_discount AS FLOAT) IN (0.1, 0.3) AS i, CAST(c_discount AS FLOAT) / CAST(3 AS DOUBLE) AS q FROM customer;
SELECT w_id, d_name FROM warehouse w LEFT JOIN LATERAL (SELECT d_name FROM district WHERE d_w_id = w.w_id) d ON TRUE;
SELECT w_id % 2 = 0 AS even, COUNT(*) c FROM warehouse GROUP BY even;
SELECT COALESCE(NULLIF(TRIM(c_middle), ''), 'none') AS m, COUNT(*) AS n FROM customer GROUP BY m ORDER BY n DESC, m LIMIT 1;
SELECT CASE WHEN c_balance > 0 THEN 'p' ELSE 'n' END AS sgn, c_w_id AS w, UPPER(c_last) || '!' AS x, COUNT(*) FROM customer GROUP BY sgn, w, x HAVING COUNT(*) > 0 AND sgn = 'p';
SELECT DATE_TRUNC('month', o_entry_d) AS o_entry, SUM(o_ol_cnt) AS s, RANK() OVER (ORDER BY SUM(o_ol_cnt) DESC) AS r FROM orders GROUP BY o_entry ORDER BY o_entry;
SELECT c_state, c_id FROM customer WHERE c_state NOT IN (SELECT w_state FROM warehouse WHERE w_state IS NOT NULL);
SELECT c_id FROM customer WHERE c_id NOT IN (SELECT o_carrier_id FROM orders);
SELECT c_state, c_id FROM customer WHERE c_state NOT IN (SELECT w_state FROM warehouse WHERE w_id > 99);
SELECT c_state, c_id FROM customer WHERE LOWER(c_state) NOT IN (SELECT LOWER(w_state) FROM warehouse WHERE w_id = c_w_id);
SELECT c_state, c_id FROM customer WHERE NOT (c_state NOT IN (SELECT w_state FROM warehouse WHERE w_id = c_w_id) OR c_id = 2);
SELECT w_id FROM warehouse WHERE w_state NOT IN (SELECT c_state FROM customer WHERE c_w_id = w_id);
SELECT o_id, DATEDIFF('hour', o_entry_d, TIMESTAMP '2020-02-01 00:30:00') AS h, DATE_DIFF('month', o_entry_d, TIMESTAMP '2019-02-01') AS m, DATE_DIFF('year', o_entry_d, DATE '2019-12-31') AS y, DATE_DIFF('quarter', o_entry_d, DATE '2019-12-31') AS q, DATE_DIFF('minute', o_entry_d, TIMESTAMP '2020-01-05 08:59:30') AS mi, DATE_DIFF('second', o_entry_d, o_entry_d + INTERVAL 5 SECOND) AS s FROM orders;
SELECT o_carrier_id, AVG(EXTRACT(EPOCH FROM (ol_delivery_d - o_entry_d))) / 86400 AS days, MAX(EXTRACT(DAY FROM ol_delivery_d - o_entry_d)) AS d FROM orders JOIN order_line ON ol_o_id = o_id AND ol_d_id = o_d_id AND ol_w_id = o_w_id GROUP BY o_carrier_id;
SELECT EPOCH(o_entry_d) AS e, EXTRACT(EPOCH FROM o_entry_d) AS f, DATE_PART('epoch', o_entry_d) AS g, EXTRACT(HOUR FROM (TIMESTAMP '2020-02-01 13:14:15' - o_entry_d)) AS h, DATE_PART('minute', o_entry_d - TIMESTAMP '2020-02-01 13:14:15') AS m, EXTRACT(SECOND FROM (TIMESTAMP '2020-02-01 13:14:15' - o_entry_d)) AS s FROM orders;
SELECT o_id FROM orders WHERE TIMESTAMP '2020-03-01' - o_entry_d > INTERVAL 30 DAY;
SELECT DATE_ADD(o_entry_d, INTERVAL 1 MONTH) AS nm, o_entry_d + (TIMESTAMP '2020-01-02' - TIMESTAMP '2020-01-01') AS s, ISODOW(o_entry_d) AS i FROM orders;
SELECT o_c_id, EXTRACT(DAY FROM MAX(o_entry_d) - MIN(o_entry_d)) AS span, EPOCH(MAX(o_entry_d) - MIN(o_entry_d)) AS e FROM orders GROUP BY o_c_id;
SELECT o_id, DATE_DIFF('day', LAG(o_entry_d) OVER (ORDER BY o_entry_d, o_id, o_d_id), o_entry_d) AS d, EXTRACT(EPOCH FROM o_entry_d - LAG(o_entry_d) OVER (ORDER BY o_entry_d, o_id, o_d_id)) / 3600 AS h FROM orders;
SELECT o_id, TIMESTAMP '2020-03-01' - o_entry_d AS age FROM orders;
SELECT o_id FROM orders WHERE TIMESTAMP '2020-03-01' - o_entry_d > INTERVAL 1 MONTH;
SELECT MAX(TIMESTAMP '2020-03-01' - o_entry_d) AS age FROM orders;
SELECT o_w_id, LAST_VALUE(o_carrier_id IGNORE NULLS) OVER (PARTITION BY o_w_id ORDER BY o_entry_d, o_d_id, o_id) AS last_carrier, o_id, o_d_id FROM orders;
SELECT o_id, o_d_id, FIRST_VALUE(o_carrier_id IGNORE NULLS) OVER (ORDER BY o_entry_d, o_d_id, o_id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS nxt, LAG(o_carrier_id IGNORE NULLS) OVER (ORDER BY o_entry_d, o_d_id, o_id) AS p, LEAD(o_carrier_id IGNORE NULLS) OVER (PARTITION BY o_w_id ORDER BY o_entry_d, o_d_id, o_id) AS l FROM orders;
SELECT s_i_id, s_w_id, FIRST_VALUE(s_data IGNORE NULLS) OVER (PARTITION BY s_i_id ORDER BY s_w_id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS f, COALESCE(s_quantity, LAST_VALUE(s_quantity IGNORE NULLS) OVER (ORDER BY s_w_id, s_i_id)) AS filled FROM stock;
SELECT LAST_VALUE(h_data IGNORE NULLS) OVER (PARTITION BY h_w_id ORDER BY h_date, h_amount) AS d, h_amount FROM history;
SELECT NTH_VALUE(h_data, 2 IGNORE NULLS) OVER (PARTITION BY h_w_id ORDER BY h_date, h_amount) AS d, h_amount FROM history;
SELECT LAG(o_carrier_id, 2 IGNORE NULLS) OVER (ORDER BY o_entry_d, o_d_id, o_id) AS p FROM orders;
SELECT SPLIT_PART(c_first || '-' || c_last, '-', 2) AS sp, SPLIT_PART(c_phone, '.', 3) AS e, REPEAT(c_state, 2) AS rp, REPEAT(c_last, c_delivery_cnt) AS rq FROM customer;
SELECT TRUNC(c_balance) AS t, TRUNC(c_balance::DOUBLE / 3) AS u, TRUNC(c_id) AS i FROM customer;
SELECT LOG10(i_price) AS l10, LOG(i_price) AS l, LOG2(i_price) AS l2, LOG(2, i_price) AS b FROM item;
SELECT TRY_CAST(w_ytd AS DOUBLE) AS d, TRY_CAST(w_id AS VARCHAR) AS v, TRY_CAST(w_id AS BIGINT) AS b FROM warehouse;
SELECT TRY_CAST(o_entry_d AS DATE) AS d, TRY_CAST(o_ol_cnt AS DOUBLE) / 3 AS x FROM orders;
SELECT TRY_CAST(w_zip AS INTEGER) AS zip FROM warehouse;
SELECT w_id, UNNEST([1, 2]) AS k FROM warehouse;
SELECT UNNEST(GENERATE_SERIES(1, 3));
SELECT c_id FROM customer WHERE c_id IN (SELECT UNNEST([1, 11]));
WITH n AS (SELECT UNNEST(['GC', 'BC', 'XX']) AS cr) SELECT n.cr, COUNT(c_id) AS c FROM n LEFT JOIN customer ON c_credit = n.cr GROUP BY n.cr;
SELECT w_id, UNNEST([1, 2]) * 10 + w_id AS k FROM warehouse w WHERE w_id < 3;
SELECT w_id, UNNEST([1, 2]) FROM warehouse;
SELECT COUNT(*), UNNEST([1, 2]) AS k FROM warehouse;
SELECT DISTINCT UNNEST([1, 1, 2]) AS k FROM warehouse;
SELECT UNNEST([w_id, 2]) AS k FROM warehouse;
SELECT w_id, UNNEST([1, NULL]) AS k FROM warehouse ORDER BY w_id, k LIMIT 3;
SELECT c_w_id, MEDIAN(c_balance) AS m, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY c_discount DESC) AS d FROM customer GROUP BY c_w_id;
SELECT ol_w_id, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY ol_amount DESC) AS d, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY ol_quantity) AS q FROM order_line GROUP BY ol_w_id;
SELECT h_data FROM history WHERE h_data NOT IN (SELECT s_data FROM stock);
SELECT o_id, o_d_id FROM orders o WHERE o_carrier_id NOT IN (SELECT d_id FROM district d WHERE d.d_w_id = o.o_w_id) OR o_id > 3;
SELECT UPPER(w_state) AS w_state, COUNT(*) AS n FROM warehouse GROUP BY w_state;
SELECT c_w_id, c_id, COUNT(DISTINCT c_state) OVER (PARTITION BY c_w_id) AS k, COUNT(DISTINCT c_data) OVER () AS a FROM customer;
SELECT h_w_id, COUNT(DISTINCT h_data) OVER (PARTITION BY h_data) AS k, COUNT(DISTINCT h_amount) OVER (PARTITION BY h_w_id) AS m FROM history;
SELECT w_id, (SELECT MAX(n) FROM (SELECT COUNT(DISTINCT d_name) OVER (PARTITION BY d_city) AS n FROM district WHERE d_w_id = w_id)) AS m FROM warehouse;
SELECT c_state, COUNT(DISTINCT COUNT(*)) OVER () AS k FROM customer GROUP BY c_state;
SELECT o_w_id, COUNT(DISTINCT o_c_id) OVER (ORDER BY o_id) AS k FROM orders;
SELECT o_id, COUNT(*) OVER (PARTITION BY YEAR(o_entry_d)) AS n FROM orders;
SELECT o_id, SUM(o_ol_cnt) OVER (PARTITION BY o_carrier_id + 1 ORDER BY o_id, o_d_id, o_w_id) AS n FROM orders;
SELECT o_id, COUNT(*) OVER (PARTITION BY DATE_TRUNC('month', o_entry_d), o_carrier_id % 2) AS n, MAX(o_ol_cnt) OVER (PARTITION BY o_carrier_id * 2) AS m FROM orders;
SELECT o_w_id, o_id, SUM(o_ol_cnt) OVER (ORDER BY o_entry_d RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW) AS s FROM orders;
SELECT o_id, RANK() OVER (PARTITION BY o_carrier_id + 1 ORDER BY o_ol_cnt * 2 DESC) AS n FROM orders;
SELECT o_id, DENSE_RANK() OVER (PARTITION BY o_carrier_id + 1 ORDER BY o_ol_cnt * 2) AS n, LAG(o_ol_cnt) OVER (PARTITION BY o_carrier_id + 1 ORDER BY o_id, o_d_id, o_w_id) AS l FROM orders;
SELECT o_carrier_id + 1 AS c, COUNT(*) AS n, (SELECT COUNT(*) FROM orders p WHERE p.o_carrier_id + 1 = o.o_carrier_id) AS m FROM orders o GROUP BY o.o_carrier_id;
SELECT c_w_id, c_id, SUM(c_balance) OVER (PARTITION BY c_w_id, c_credit ORDER BY c_balance RANGE BETWEEN 10 PRECEDING AND 20 FOLLOWING) AS s, COUNT(*) OVER (ORDER BY c_balance DESC RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) AS n FROM customer;
SELECT c_w_id, c_id, MIN(c_id) OVER (ORDER BY c_since DESC RANGE BETWEEN INTERVAL 1 MONTH PRECEDING AND INTERVAL 3 DAY FOLLOWING) AS s FROM customer;
SELECT h_w_id, SUM(h_amount) OVER (ORDER BY CAST(h_date AS DATE) RANGE BETWEEN INTERVAL 2 DAY PRECEDING AND CURRENT ROW) AS s FROM history;
SELECT ol_w_id, COUNT(*) OVER (PARTITION BY ol_w_id ORDER BY ol_i_id GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE GROUP) AS s, SUM(ol_quantity) OVER (PARTITION BY ol_w_id ORDER BY ol_i_id GROUPS BETWEEN CURRENT ROW AND 2 FOLLOWING EXCLUDE TIES) AS t FROM order_line;
SELECT c_id, MEDIAN(c_balance) OVER (PARTITION BY c_w_id ORDER BY c_id, c_d_id) AS m, QUANTILE_CONT(c_balance, 0.9) OVER (PARTITION BY c_credit) AS q, STRING_AGG(c_last, ',' ORDER BY c_id, c_d_id, c_w_id) OVER (PARTITION BY c_state) AS l FROM customer;
SELECT c_id, ARG_MAX(c_id, c_since) OVER (PARTITION BY c_w_id) AS a, BOOL_OR(c_balance > 50) OVER (PARTITION BY c_w_id ORDER BY c_id) AS b, COUNT(DISTINCT c_state) OVER (PARTITION BY c_w_id) AS d, STDDEV(c_balance) OVER (PARTITION BY c_w_id) AS sd, COUNT(*) FILTER (WHERE c_credit = 'GC') OVER (PARTITION BY c_w_id ORDER BY c_id) AS f FROM customer;
SELECT c_state, SUM(COUNT(*)) OVER (ORDER BY c_state ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s, AVG(SUM(c_balance)) OVER () AS a FROM customer GROUP BY c_state;
SELECT c_w_id, COVAR_POP(c_balance, c_ytd_payment) OVER (PARTITION BY c_w_id) AS c, SUM(DISTINCT c_payment_cnt) OVER (PARTITION BY c_w_id) AS d FROM customer;
SELECT c_w_id, FIRST(c_middle ORDER BY c_id, c_d_id DESC) AS f, LAST(c_balance ORDER BY c_since, c_id, c_d_id) AS l, ANY_VALUE(c_middle ORDER BY c_id, c_d_id) AS a FROM customer GROUP BY c_w_id;
SELECT h_w_id, STRING_AGG(h_data, ';' ORDER BY h_amount DESC NULLS LAST, h_data) AS s, MEDIAN(h_amount) AS m, QUANTILE_CONT(h_amount, 0.3) AS q, COVAR_SAMP(h_amount, h_c_id) AS c FROM history GROUP BY h_w_id;
SELECT COUNT(DISTINCT (h_w_id, h_data)) AS n, COUNT(DISTINCT h_data) AS m FROM history;
SELECT * FROM warehouse w LEFT JOIN district d ON w.w_id = d.d_w_id;
SELECT c.*, o.* FROM customer c LEFT JOIN orders o ON c.c_id = o.o_c_id AND c.c_w_id = o.o_w_id AND c.c_d_id = o.o_d_id;
SELECT h.*, c.* FROM history h JOIN customer c ON h.h_c_id = c.c_id AND h.h_c_w_id = c.c_w_id AND h.h_c_d_id = c.c_d_id;
SELECT * FROM history h LEFT JOIN customer c ON h.h_c_id = c.c_id AND h.h_c_w_id = c.c_w_id AND h.h_c_d_id = c.c_d_id;
SELECT * FROM customer c FULL JOIN stock s ON c.c_id = s.s_i_id AND c.c_w_id = s.s_w_id;
SELECT DISTINCT * FROM customer;
SELECT * FROM customer UNION ALL SELECT * FROM customer;
SELECT c_state, COUNT(*) FROM (SELECT * FROM customer UNION ALL SELECT * FROM customer) t GROUP BY c_state;
SELECT DISTINCT ON (h_w_id) h_w_id, h_amount FROM history ORDER BY h_w_id, h_amount DESC;
SELECT w_id, w_name FROM warehouse UNION BY NAME SELECT d_id, d_w_id AS w_id FROM district;
SELECT w_id, w_name FROM warehouse UNION ALL BY NAME SELECT d_name AS w_name, d_w_id AS w_id, d_ytd FROM district;
SELECT c_id FROM customer WHERE (c_w_id, c_d_id) NOT IN (SELECT d_w_id, d_id FROM district WHERE d_ytd > 5);
SELECT c_id FROM customer WHERE (c_state, c_credit) NOT IN (SELECT w_state, w_city FROM warehouse);
SELECT o_id, o_entry_d + o_ol_cnt * INTERVAL 1 DAY AS x, o_entry_d - INTERVAL 2 MONTH * o_ol_cnt AS y FROM orders;
SELECT x.y, (SELECT COUNT(*) FROM district t WHERE t.d_next_o_id = x.y) AS n FROM (SELECT o_carrier_id + 1 AS y FROM orders) x;
SELECT x.y, EXISTS (SELECT 1 FROM district t WHERE t.d_next_o_id = x.y) AS n FROM (SELECT o_carrier_id + 1 AS y FROM orders) x;
SELECT x.y FROM (SELECT o_carrier_id + 1 AS y FROM orders) x WHERE NOT EXISTS (SELECT 1 FROM district t WHERE t.d_next_o_id = x.y);
SELECT c_state, (SELECT MAX(w_ytd) FROM warehouse WHERE w_state = c_state) AS m, COUNT(*) AS n FROM customer GROUP BY c_state HAVING COUNT(*) > (SELECT COUNT(*) FROM warehouse WHERE w_state = c_state);
SELECT w.w_id, x.d_id FROM warehouse w LEFT JOIN LATERAL (SELECT d_id FROM district d WHERE d.d_w_id = w.w_id ORDER BY d_ytd DESC, d_id LIMIT 1) x ON TRUE;
SELECT w.w_id, x.c_state, x.n FROM warehouse w LEFT JOIN LATERAL (SELECT c_state, COUNT(*) AS n FROM customer c WHERE c.c_w_id = w.w_id GROUP BY c_state) x ON TRUE;
SELECT ol_w_id, ol_o_id, g.n FROM order_line, LATERAL (SELECT UNNEST(GENERATE_SERIES(1, ol_quantity)) AS n) g;
SELECT ol_w_id, ol_o_id, n FROM order_line, GENERATE_SERIES(1, ol_quantity) AS g(n);
SELECT d.dt, COUNT(o_id) AS n FROM GENERATE_SERIES(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-10', INTERVAL 1 DAY) AS d(dt) LEFT JOIN orders ON CAST(o_entry_d AS DATE) = CAST(d.dt AS DATE) GROUP BY d.dt;
SELECT w_id, UNNEST(GENERATE_SERIES(1, w_id)) AS n FROM warehouse;
SELECT o_id, n FROM orders, UNNEST(RANGE(0, o_ol_cnt)) AS u(n);
PIVOT customer ON c_credit IN ('GC', 'BC') USING COUNT(*) GROUP BY c_w_id;
PIVOT (SELECT c_w_id, c_credit, c_balance FROM customer) ON c_credit IN ('GC', 'BC') USING SUM(c_balance) AS s, COUNT(*) AS n;
SELECT * FROM (PIVOT customer ON c_credit IN ('GC', 'BC') USING SUM(c_balance) GROUP BY c_w_id) WHERE c_w_id > 1;
WITH t AS (SELECT c_w_id, c_state, c_balance FROM customer) PIVOT t ON c_state IN ('BY', 'NW') USING MAX(c_balance);
SELECT * FROM (SELECT w_id, w_tax, w_ytd FROM warehouse) UNPIVOT (val FOR col IN (w_tax, w_ytd));
UNPIVOT (SELECT w_id, w_city, w_state FROM warehouse) ON w_city, w_state INTO NAME k VALUE v;
SELECT o.o_id, o.o_w_id, o.o_d_id, h.h_date FROM orders o ASOF JOIN history h ON o.o_w_id = h.h_w_id AND o.o_entry_d >= h.h_date;
SELECT o.o_id, o.o_w_id, p.h_date AS prev FROM orders o ASOF LEFT JOIN history p ON o.o_w_id = p.h_w_id AND o.o_entry_d < p.h_date;
SELECT o_id, h_date FROM orders o ASOF LEFT JOIN (SELECT h_w_id AS o_w_id, h_date AS o_entry_d, h_date FROM history) h USING (o_w_id, o_entry_d);
SELECT w.w_id, x.* FROM warehouse w LEFT JOIN LATERAL (SELECT d_id, d_name, d_ytd * w.w_tax AS t FROM district d WHERE d.d_w_id = w.w_id) x ON x.t > 0;
SELECT c.c_id, o.o_id, l.s FROM customer c JOIN orders o ON o.o_c_id = c.c_id AND o.o_w_id = c.c_w_id LEFT JOIN LATERAL (SELECT SUM(ol_amount) AS s FROM order_line WHERE ol_o_id = o.o_id AND ol_w_id = o.o_w_id HAVING SUM(ol_amount) > 20) l ON TRUE;
SELECT i_id, (SELECT COUNT(*) FROM GENERATE_SERIES(1, i_id) g(n)) AS n FROM item;
WITH RECURSIVE ch AS (SELECT c_id, c_w_id, 1 AS lvl FROM customer WHERE c_id = 1 UNION ALL SELECT c.c_id, c.c_w_id, ch.lvl + 1 FROM customer c JOIN ch ON c.c_id = ch.c_id + 1 AND c.c_w_id = ch.c_w_id WHERE ch.lvl < 5) SELECT * FROM ch;
WITH RECURSIVE ch AS (SELECT c_id, 1 AS lvl FROM customer WHERE c_id = 1 UNION ALL SELECT c.c_id, ch.lvl + 1 FROM customer c JOIN ch ON c.c_id = ch.c_id + 1 WHERE ch.lvl < 3) SELECT lvl, COUNT(*) AS n FROM ch GROUP BY lvl;
WITH RECURSIVE b(i, p) AS (SELECT i_id, i_price FROM item WHERE i_im_id IS NULL OR i_im_id < 3 UNION ALL SELECT i.i_id, i.i_price + b.p FROM item i JOIN b ON i.i_im_id = b.i AND i.i_id > b.i) SELECT i, SUM(p) AS s, COUNT(*) AS n FROM b GROUP BY i;
WITH RECURSIVE ch AS (SELECT c_id, c_w_id FROM customer WHERE c_id = 1 UNION SELECT c.c_id, c.c_w_id FROM customer c JOIN ch ON c.c_id = ch.c_id + 1) SELECT c_w_id, COUNT(*) FROM ch GROUP BY c_w_id;
WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 10) SELECT n, (SELECT COUNT(*) FROM item WHERE i_id <= n) AS c FROM s;
SELECT TRY_CAST(c_phone AS INTEGER) AS z, COUNT(*) FROM customer GROUP BY 1;
SELECT TRY_CAST(w_zip AS DOUBLE) AS z, TRY_CAST(w_ytd AS INTEGER) AS y, TRY_CAST(w_name AS DATE) AS d, TRY_CAST(w_zip AS DECIMAL(8,2)) AS e FROM warehouse;
SELECT STRFTIME(o_entry_d, '%Y-%m') AS ym, COUNT(*) AS n FROM orders GROUP BY STRFTIME(o_entry_d, '%Y-%m');
SELECT STRFTIME(o_entry_d, '%Y-%m-%d %H:%M:%S') AS s, STRFTIME(CAST(o_entry_d AS DATE), '%d.%-m.%y %A %b %j') AS t FROM orders;
SELECT MONTHNAME(o_entry_d) AS m, DAYNAME(o_entry_d) AS d, COUNT(*) FROM orders GROUP BY ALL;
SELECT LAST_DAY(CAST(o_entry_d AS DATE)) AS l, LAST_DAY(o_entry_d) AS m, o_id FROM orders;
SELECT MAKE_DATE(2020, o_d_id, 1) AS d, MAKE_DATE(o_ol_cnt + 2000, 2, 3) AS e FROM orders;
SELECT DATE_PART('week', o_entry_d) AS w, DATE_PART('isoyear', o_entry_d) AS y, DATE_PART('decade', o_entry_d) AS dd, EXTRACT(CENTURY FROM o_entry_d) AS c, EXTRACT(MILLISECONDS FROM o_entry_d) AS ms, WEEKOFYEAR(o_entry_d) AS wy FROM orders;
SELECT EPOCH_MS(o_entry_d) AS e, EPOCH_US(o_entry_d) AS u FROM orders;
SELECT DATE_SUB('day', TIMESTAMP '2019-01-01', o_entry_d) AS d, DATEDIFF('week', TIMESTAMP '2019-01-01', o_entry_d) AS w, DATE_SUB('hour', o_entry_d, TIMESTAMP '2021-01-01 01:00:00') AS h FROM orders;
SELECT c_balance % 7 AS m, FLOOR(c_balance / 10) * 10 AS bucket, MOD(c_balance, c_discount + 1) AS n FROM customer;
SELECT ROUND(c_payment_cnt * 13 - 20, -1) AS r, ROUND(c_id, 1) AS q FROM customer;
SELECT SIN(c_discount) AS s, COS(c_discount) AS c, PI() AS p, DEGREES(c_discount) AS d, RADIANS(c_id) AS r, CBRT(c_balance) AS cb, ATAN2(c_id, 2) AS a, LOG(3, c_id) AS l FROM customer;
SELECT REGEXP_MATCHES(c_last, '^B.*') AS m, REGEXP_REPLACE(c_last, 'A', 'x', 'g') AS r, REGEXP_EXTRACT(c_last, '[A-Z]+') AS e, REGEXP_REPLACE(c_last, '[AB]', '-') AS f, REGEXP_EXTRACT(c_last, '([A-Z])([A-Z])', 2) AS g FROM customer;
SELECT c_last SIMILAR TO 'B.*' AS s, REGEXP_FULL_MATCH(c_last, 'A') AS t FROM customer;
SELECT c_last ~ 'B' AS a, c_last !~ 'B.*' AS b FROM customer;
SELECT c_last NOT LIKE '%A%' AS n, c_last ILIKE 'b%' AS il, c_last GLOB 'B*' AS gl, c_last GLOB '?[A-B]*' AS g2 FROM customer;
SELECT REPLACE(c_phone, '1', 'x') AS r, TRANSLATE(c_last, 'AB', 'ab') AS t, ASCII(c_last) AS a, CHR(65 + c_id) AS ch, ORD(c_last) AS o, UNICODE(c_last) AS u FROM customer;
SELECT MD5(c_last || c_first) AS h, SHA256(c_last) AS s FROM customer;
SELECT SUBSTR(c_last, 1, 3) AS p, RIGHT(c_last, 2) AS r, c_last[1:2] AS sl, c_last[2] AS s2, c_last[2:] AS s3 FROM customer;
SELECT SPLIT_PART(c_data, ' ', 1) AS f, STRING_SPLIT(c_data, ' ')[1] AS g, STRING_SPLIT(c_data, ' ')[2] AS h, LEN(STRING_SPLIT(c_data, ' ')) AS n FROM customer;
SELECT PRINTF('%d-%s', c_id, c_last) AS p, FORMAT('{}-{}', c_id, c_last) AS f FROM customer;
SELECT TYPEOF(c_id) AS t, TYPEOF(c_balance) AS u FROM customer;
SELECT c_id & 1 AS a, c_id | 2 AS o, c_id << 1 AS l, XOR(c_id, 3) AS x, ~c_id AS n, c_id >> 1 AS r FROM customer;
SELECT o_entry_d + TO_DAYS(o_id) AS a, o_entry_d - TO_HOURS(2) AS b, o_entry_d + TO_MONTHS(o_id) AS c FROM orders;
SELECT TIME_BUCKET(INTERVAL 7 DAY, o_entry_d) AS b, COUNT(*) AS n, SUM(o_ol_cnt) FROM orders GROUP BY 1;
SELECT STRPTIME('2020-01-0' || CAST(o_id AS VARCHAR), '%Y-%m-%d') AS p FROM orders;
SELECT LIST_CONTAINS([1, 2], c_id) AS l, c_id = ANY([1, 3]) AS m FROM customer WHERE c_d_id = ANY([1, 2]);
SELECT TRY(c_id // (c_id - 1)) AS t FROM customer;
SELECT QUARTER(o_entry_d) AS q, DAYOFYEAR(o_entry_d) AS y, DAYOFWEEK(o_entry_d) AS w, ISODOW(o_entry_d) AS i, WEEK(o_entry_d) AS k FROM orders;
SELECT REGEXP_EXTRACT(c_phone, '[0-9]') AS e, REGEXP_EXTRACT(c_middle, '(O)(E)', 2) AS g, ASCII(c_phone) AS a, REGEXP_MATCHES(c_data, 'x') AS m, c_data GLOB 'x*' AS gl, STRING_SPLIT(c_data, 'x')[2] AS p, FORMAT('{}', c_phone) AS f FROM customer;
SELECT STRFTIME(h_date, '%Y') AS y, MONTHNAME(h_date) AS m, LAST_DAY(h_date) AS l, TIME_BUCKET(INTERVAL 1 DAY, h_date) AS b, EXTRACT(DECADE FROM h_date) AS d, TRY_CAST(h_data AS INTEGER) AS t, h_amount % 3 AS r, ROUND(h_c_id, -1) AS q, CBRT(h_amount) AS c, LN(h_amount) AS ln FROM history;

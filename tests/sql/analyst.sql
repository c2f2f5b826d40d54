-- What an analyst asks of a shop: its three tables, and one query a line.
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, city VARCHAR, joined DATE, segment VARCHAR, credit DECIMAL(10,2), email VARCHAR, referred_by INTEGER)
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, placed TIMESTAMP, status VARCHAR NOT NULL, total DECIMAL(12,2), discount DECIMAL(5,2), items INTEGER, note VARCHAR)
CREATE TABLE events (customer_id INTEGER, happened TIMESTAMP NOT NULL, kind VARCHAR NOT NULL, page VARCHAR, ms BIGINT, weight DOUBLE)

SELECT c.segment, count(*) AS orders, sum(o.total) AS revenue, avg(o.total) AS aov, count(DISTINCT o.customer_id) AS buyers FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.status <> 'cancelled' GROUP BY c.segment
SELECT date_trunc('month', placed) AS month, status, count(*) AS n, sum(total * (1 - coalesce(discount, 0) / 100)) AS net FROM orders GROUP BY 1, 2
SELECT date_trunc('month', placed)::DATE AS month, sum(total) AS revenue, sum(sum(total)) OVER (ORDER BY date_trunc('month', placed)::DATE) AS running FROM orders WHERE placed IS NOT NULL GROUP BY 1
WITH m AS (SELECT date_trunc('month', placed) AS month, sum(total) AS revenue FROM orders GROUP BY 1) SELECT month, revenue, lag(revenue) OVER (ORDER BY month) AS before, revenue - lag(revenue) OVER (ORDER BY month) AS change, round(100.0 * (revenue - lag(revenue) OVER (ORDER BY month)) / nullif(lag(revenue) OVER (ORDER BY month), 0), 2) AS pct FROM m
SELECT c.id, c.name, max(o.placed) AS last_order, count(o.id) AS orders, coalesce(sum(o.total), 0) AS spent FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.name
SELECT c.id, c.name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id AND o.status IN ('paid', 'shipped'))
SELECT * FROM (SELECT o.*, row_number() OVER (PARTITION BY customer_id ORDER BY placed DESC NULLS LAST, id) AS rn FROM orders o) WHERE rn = 1
SELECT customer_id, id, total FROM orders QUALIFY rank() OVER (PARTITION BY customer_id ORDER BY total DESC NULLS LAST) <= 2
SELECT city, segment, count(*) AS n, avg(credit) AS credit FROM customers GROUP BY ROLLUP (city, segment)
SELECT coalesce(city, '(none)') AS city, count(*) FILTER (WHERE segment = 'smb') AS smb, count(*) FILTER (WHERE segment = 'ent') AS ent, count(*) FILTER (WHERE segment IS NULL) AS unknown FROM customers GROUP BY 1
SELECT c.city, o.status, sum(o.total) AS t FROM orders o LEFT JOIN customers c ON o.customer_id = c.id GROUP BY CUBE (c.city, o.status) HAVING count(*) > 1
SELECT status, median(total) AS med, quantile_cont(total, 0.9) AS p90, stddev(total) AS sd, min(total) AS lo, max(total) AS hi FROM orders GROUP BY status
SELECT customer_id, string_agg(DISTINCT status, ', ' ORDER BY status) AS statuses, list(id ORDER BY id) AS ids FROM orders GROUP BY customer_id
SELECT c.name, o.id, o.total, o.total / sum(o.total) OVER (PARTITION BY c.id) AS share FROM orders o JOIN customers c ON c.id = o.customer_id
SELECT date_diff('day', c.joined, o.placed::DATE) AS days, count(*) AS n FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY 1
WITH first_order AS (SELECT customer_id, min(placed) AS first FROM orders GROUP BY customer_id) SELECT date_trunc('month', f.first) AS cohort, date_diff('month', f.first, o.placed) AS age, count(DISTINCT o.customer_id) AS active FROM orders o JOIN first_order f USING (customer_id) GROUP BY ALL
SELECT e.kind, date_part('hour', e.happened) AS hour, count(*) AS n, avg(e.ms) AS ms, sum(e.weight) AS w FROM events e GROUP BY 1, 2
WITH s AS (SELECT customer_id, happened, kind, lag(happened) OVER (PARTITION BY customer_id ORDER BY happened, kind, page, ms, weight) AS prev FROM events WHERE customer_id IS NOT NULL) SELECT customer_id, count(*) FILTER (WHERE prev IS NULL OR happened - prev > INTERVAL 30 MINUTE) AS sessions FROM s GROUP BY customer_id
SELECT count(DISTINCT CASE WHEN kind = 'view' THEN customer_id END) AS viewed, count(DISTINCT CASE WHEN kind = 'cart' THEN customer_id END) AS carted, count(DISTINCT CASE WHEN kind = 'buy' THEN customer_id END) AS bought FROM events
SELECT c.id, bool_or(e.kind = 'buy') AS bought, bool_and(e.ms > 50) AS slow, max(e.happened) FILTER (WHERE e.kind = 'view') AS seen FROM customers c LEFT JOIN events e ON e.customer_id = c.id GROUP BY c.id
SELECT split_part(page, '?', 1) AS path, count(*) AS n, count(*) * 100.0 / sum(count(*)) OVER () AS pct FROM events GROUP BY 1
SELECT c.name, r.name AS referrer, count(*) OVER (PARTITION BY c.referred_by) AS siblings FROM customers c LEFT JOIN customers r ON c.referred_by = r.id
WITH RECURSIVE tree AS (SELECT id, referred_by, 0 AS depth FROM customers WHERE referred_by IS NULL UNION SELECT c.id, c.referred_by, t.depth + 1 FROM customers c JOIN tree t ON c.referred_by = t.id WHERE t.depth < 5) SELECT depth, count(*) AS n FROM tree GROUP BY depth
SELECT c.id FROM customers c WHERE c.credit > (SELECT avg(credit) FROM customers x WHERE x.segment = c.segment)
SELECT o.id, o.total FROM orders o WHERE o.total > ALL (SELECT total FROM orders p WHERE p.customer_id = o.customer_id AND p.id <> o.id AND p.total IS NOT NULL)
SELECT id, CASE WHEN total >= 400 THEN 'large' WHEN total >= 100 THEN 'medium' WHEN total IS NULL THEN 'unknown' ELSE 'small' END AS size, count(*) OVER (PARTITION BY CASE WHEN total >= 400 THEN 'large' WHEN total >= 100 THEN 'medium' END) AS n FROM orders
SELECT width, count(*) AS n FROM (SELECT CAST(floor(total / 100) AS INTEGER) * 100 AS width FROM orders) GROUP BY width HAVING width IS NOT NULL
SELECT * FROM (SELECT status, date_part('quarter', placed) AS q, total FROM orders) PIVOT (sum(total) FOR q IN (1, 2, 3, 4))
PIVOT orders ON status IN ('new', 'paid', 'shipped') USING sum(total) AS t, count(*) AS n GROUP BY customer_id
UNPIVOT (SELECT id, total::DOUBLE AS total, discount::DOUBLE AS discount FROM orders) ON total, discount INTO NAME measure VALUE amount
SELECT customer_id, avg(total) OVER (PARTITION BY customer_id ORDER BY placed, id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving FROM orders
SELECT placed::DATE AS d, count(*) AS n, sum(count(*)) OVER (ORDER BY placed::DATE RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND CURRENT ROW) AS week FROM orders WHERE placed IS NOT NULL GROUP BY 1
SELECT DISTINCT ON (customer_id) customer_id, kind, happened FROM events ORDER BY customer_id, happened DESC, kind, page, ms, weight
SELECT customer_id FROM orders WHERE status = 'paid' INTERSECT SELECT customer_id FROM events WHERE kind = 'buy'
SELECT id FROM customers EXCEPT SELECT customer_id FROM orders
SELECT 'orders' AS source, count(*) AS n, count(customer_id) AS with_customer FROM orders UNION ALL SELECT 'events', count(*), count(customer_id) FROM events UNION ALL SELECT 'customers', count(*), count(id) FROM customers
SELECT c.id, o.n, e.n AS events FROM customers c LEFT JOIN (SELECT customer_id, count(*) AS n FROM orders GROUP BY 1) o ON o.customer_id = c.id LEFT JOIN (SELECT customer_id, count(*) AS n FROM events GROUP BY 1) e ON e.customer_id = c.id
SELECT coalesce(o.customer_id, e.customer_id) AS id, o.id AS order_id, e.kind FROM orders o FULL JOIN (SELECT DISTINCT customer_id, kind FROM events) e ON e.customer_id = o.customer_id
SELECT lower(split_part(email, '@', 2)) AS domain, count(*) AS n FROM customers WHERE email LIKE '%@%' GROUP BY domain ORDER BY n DESC, domain LIMIT 1
SELECT strftime(placed, '%Y-%m') AS ym, dayname(placed) AS dow, count(*) AS n FROM orders GROUP BY ALL
SELECT name, regexp_replace(name, '^(\w+) .*$', '\1') AS first, length(name) AS len, upper(left(name, 1)) AS initial FROM customers WHERE city IS DISTINCT FROM 'Paris'
SELECT o.status, sum(o.items) AS items, sum(o.items) * 1.0 / nullif(count(DISTINCT o.customer_id), 0) AS per_buyer FROM orders o GROUP BY o.status
SELECT c.segment, c.city, sum(o.total) AS t, rank() OVER (PARTITION BY c.segment ORDER BY sum(o.total) DESC NULLS LAST) AS r FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.segment, c.city
SELECT c.id, l.id AS last_id, l.total FROM customers c LEFT JOIN LATERAL (SELECT o.id, o.total FROM orders o WHERE o.customer_id = c.id ORDER BY o.placed DESC NULLS LAST, o.id LIMIT 1) l ON true
SELECT customer_id, arg_max(status, id) AS latest, arg_min(total, id) AS first_total, max_by(note, id) AS note FROM orders GROUP BY customer_id
SELECT g.month, count(o.id) AS n, coalesce(sum(o.total), 0) AS t FROM generate_series(1, 12) g(month) LEFT JOIN orders o ON date_part('month', o.placed) = g.month GROUP BY g.month
SELECT d.d::DATE AS day, count(e.kind) AS n FROM generate_series(TIMESTAMP '2023-01-10', TIMESTAMP '2023-01-14', INTERVAL 1 DAY) d(d) LEFT JOIN events e ON e.happened::DATE = d.d::DATE GROUP BY 1
SELECT a.customer_id, count(*) AS pairs FROM orders a JOIN orders b ON a.customer_id = b.customer_id AND a.id < b.id AND abs(date_diff('day', a.placed, b.placed)) <= 60 GROUP BY a.customer_id
SELECT status, corr(total, items) AS c, regr_slope(total, items) AS s, covar_samp(total, items) AS v FROM orders GROUP BY status
SELECT ntile(4) OVER (ORDER BY total NULLS FIRST, id) AS quartile, id FROM orders
WITH spend AS (SELECT customer_id, sum(total) AS t FROM orders WHERE status <> 'cancelled' GROUP BY customer_id), ranked AS (SELECT *, ntile(3) OVER (ORDER BY t DESC NULLS LAST, customer_id) AS tier FROM spend) SELECT tier, count(*) AS n, min(t) AS lo, max(t) AS hi FROM ranked GROUP BY tier
SELECT c.name, count(*) AS n FROM customers c SEMI JOIN orders o ON o.customer_id = c.id GROUP BY c.name
SELECT o.id, first_value(o.total IGNORE NULLS) OVER w AS f, last_value(o.total IGNORE NULLS) OVER w AS l, sum(o.items) OVER w AS s FROM orders o WINDOW w AS (PARTITION BY o.customer_id ORDER BY o.id)
SELECT kind, approx_count_distinct(customer_id) AS users, max(page) AS top, count(page) AS pages FROM events GROUP BY kind
SELECT c.city, list(DISTINCT c.segment ORDER BY c.segment) AS segments, max(c.joined) - min(c.joined) AS span FROM customers c GROUP BY c.city
SELECT customer_id, sum(CASE WHEN status = 'paid' THEN total ELSE 0 END) AS paid, sum(CASE WHEN status = 'cancelled' THEN total ELSE 0 END) AS lost, sum(CASE WHEN status = 'paid' THEN total END) / nullif(sum(total), 0) AS rate FROM orders GROUP BY customer_id HAVING sum(total) > 100
SELECT e.customer_id, e.happened, o.id AS order_id, o.placed FROM events e ASOF LEFT JOIN (SELECT customer_id, placed, max(id) AS id FROM orders WHERE placed IS NOT NULL AND customer_id IS NOT NULL GROUP BY ALL) o ON e.customer_id = o.customer_id AND e.happened >= o.placed
SELECT status, count(*) AS n, grouping(status) AS g FROM orders GROUP BY GROUPING SETS ((status), ())
SELECT year(joined) AS y, month(joined) AS m, count(*) AS n, sum(count(*)) OVER (PARTITION BY year(joined) ORDER BY month(joined)) AS ytd FROM customers GROUP BY 1, 2
SELECT c.id, exists(SELECT 1 FROM events e WHERE e.customer_id = c.id AND e.kind = 'buy') AS buyer, (SELECT count(*) FROM orders o WHERE o.customer_id = c.id AND o.note <> '') AS noted, c.id IN (SELECT referred_by FROM customers) AS refers FROM customers c
SELECT o.id, o.total, c.credit, greatest(o.total, c.credit) AS g, least(o.discount, 5) AS l, o.total % 7 AS m, round(o.total, 0) AS r, o.total::INTEGER AS i FROM orders o LEFT JOIN customers c ON c.id = o.customer_id
SELECT customer_id, max(gap) AS longest FROM (SELECT customer_id, date_diff('hour', lag(placed) OVER (PARTITION BY customer_id ORDER BY placed, id), placed) AS gap FROM orders) GROUP BY customer_id
SELECT happened::DATE AS day, kind, count(*) AS n, count(*) - lag(count(*), 1, 0) OVER (PARTITION BY kind ORDER BY happened::DATE) AS d FROM events GROUP BY 1, 2
SELECT time_bucket(INTERVAL '7 days', placed) AS week, count(*) AS n, sum(items) AS items FROM orders GROUP BY 1
SELECT customer_id, percent_rank() OVER (ORDER BY sum(total)) AS p, cume_dist() OVER (ORDER BY sum(total)) AS d FROM orders WHERE total IS NOT NULL GROUP BY customer_id
SELECT note, count(*) AS n, min(status) AS s, histogram(status) AS h FROM orders GROUP BY note
SELECT c.segment, avg(n) AS orders_each, max(n) AS most FROM (SELECT c.id, c.segment, count(o.id) AS n FROM customers c LEFT JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.segment) c GROUP BY c.segment
SELECT id, total, sum(total) OVER (ORDER BY id) AS run, total > avg(total) OVER () AS above, max(total) OVER (PARTITION BY status ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS best_before FROM orders
SELECT p.page, p.n, v.kind FROM (SELECT page, count(*) AS n FROM events GROUP BY page) p JOIN (SELECT DISTINCT page, kind FROM events) v ON v.page IS NOT DISTINCT FROM p.page
SELECT count(*) AS n, count(*) FILTER (WHERE total IS NULL) AS missing, count(DISTINCT customer_id) AS buyers, sum(total) AS t, min(placed) AS first, max(placed) AS last, avg(items) AS items, max(note) AS note FROM orders
WITH g AS (SELECT customer_id, placed::DATE AS d, row_number() OVER (PARTITION BY customer_id ORDER BY placed, id) AS rn FROM orders WHERE customer_id IS NOT NULL AND placed IS NOT NULL), i AS (SELECT customer_id, d, d - CAST(rn * 30 AS INTEGER) AS island FROM g) SELECT customer_id, island, min(d) AS a, max(d) AS b, count(*) AS n FROM i GROUP BY customer_id, island
WITH s AS (SELECT *, CASE WHEN happened - lag(happened) OVER (PARTITION BY customer_id ORDER BY happened, kind, page, ms, weight) <= INTERVAL 1 HOUR THEN 0 ELSE 1 END AS fresh FROM events), n AS (SELECT *, sum(fresh) OVER (PARTITION BY customer_id ORDER BY happened, kind, page, ms, weight ROWS UNBOUNDED PRECEDING) AS session FROM s) SELECT customer_id, count(DISTINCT session) AS sessions, max(happened) - min(happened) AS span FROM n GROUP BY customer_id
SELECT c.id, (SELECT min(e.happened) FROM events e WHERE e.customer_id = c.id AND e.kind = 'cart' AND e.happened > (SELECT min(v.happened) FROM events v WHERE v.customer_id = c.id AND v.kind = 'view')) AS carted FROM customers c
WITH f AS (SELECT customer_id, min(CASE WHEN kind = 'view' THEN happened END) AS v, min(CASE WHEN kind = 'cart' THEN happened END) AS c, min(CASE WHEN kind = 'buy' THEN happened END) AS b FROM events GROUP BY customer_id) SELECT count(v) AS viewed, count(*) FILTER (WHERE c > v) AS carted, count(*) FILTER (WHERE c > v AND b > c) AS bought FROM f
WITH r AS (SELECT customer_id, sum(total) AS t FROM orders GROUP BY customer_id), s AS (SELECT *, sum(t) OVER (ORDER BY t DESC NULLS LAST, customer_id) / sum(t) OVER () AS cum FROM r WHERE t > 0) SELECT customer_id, CASE WHEN cum <= 0.8 THEN 'A' WHEN cum <= 0.95 THEN 'B' ELSE 'C' END AS class FROM s
SELECT o.id, o.total, (o.total - avg(o.total) OVER w) / nullif(stddev(o.total) OVER w, 0) AS z FROM orders o WINDOW w AS (PARTITION BY o.status)
SELECT a.items AS x, b.items AS y, count(*) AS n FROM orders a JOIN orders b ON a.customer_id = b.customer_id AND a.items < b.items GROUP BY ALL HAVING count(*) >= 2
SELECT c.id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM (SELECT DISTINCT kind FROM events) k WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.customer_id = c.id AND e.kind = k.kind))
SELECT y.y, y.m, t.total, p.total AS last_year FROM (SELECT year(placed) AS y, month(placed) AS m FROM orders GROUP BY 1, 2) y LEFT JOIN (SELECT year(placed) AS y, month(placed) AS m, sum(total) AS total FROM orders GROUP BY ALL) t USING (y, m) LEFT JOIN (SELECT year(placed) AS y, month(placed) AS m, sum(total) AS total FROM orders GROUP BY ALL) p ON p.y = y.y - 1 AND p.m = y.m
SELECT count(DISTINCT (city, segment)) AS pairs, count(DISTINCT city) AS cities, count(*) - count(email) AS unreachable FROM customers
SELECT id FROM customers WHERE id NOT IN (SELECT referred_by FROM customers)
SELECT id FROM customers WHERE id NOT IN (SELECT referred_by FROM customers WHERE referred_by IS NOT NULL)
SELECT c.city, o.status, count(*) AS n FROM customers c FULL JOIN orders o ON o.customer_id = c.id AND o.total > 100 WHERE c.segment = 'smb' OR o.items > 2 GROUP BY ALL
SELECT c.segment, sum(o.total) AS t, sum(o.total) / (SELECT sum(total) FROM orders) AS share FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.segment HAVING sum(o.total) > (SELECT avg(total) FROM orders)
SELECT city FROM customers EXCEPT ALL SELECT page FROM events
SELECT customer_id FROM orders INTERSECT ALL SELECT customer_id FROM events
SELECT kind, page, count(*) AS n FROM events GROUP BY GROUPING SETS ((kind, page), (kind), (page), ()) HAVING count(*) > 2
SELECT customer_id, status, total FROM orders QUALIFY sum(total) OVER (PARTITION BY customer_id) > 500 AND row_number() OVER (PARTITION BY customer_id ORDER BY id) = 1
SELECT segment, city, avg(credit) AS a FROM customers GROUP BY segment, city QUALIFY dense_rank() OVER (PARTITION BY segment ORDER BY avg(credit) DESC) = 1
SELECT c.name, t.* FROM customers c, LATERAL (SELECT id AS oid, total FROM orders o WHERE o.customer_id = c.id ORDER BY total DESC NULLS LAST, id LIMIT 2) t
WITH RECURSIVE up AS (SELECT id, id AS root, 1 AS lvl FROM customers WHERE referred_by IS NULL UNION ALL SELECT c.id, up.root, up.lvl + 1 FROM customers c JOIN up ON c.referred_by = up.id WHERE up.lvl < 6) SELECT root, count(*) AS n, max(lvl) AS depth, sum(o.total) AS t FROM up LEFT JOIN orders o ON o.customer_id = up.id GROUP BY root
SELECT id, placed, total, sum(CASE status WHEN 'cancelled' THEN -total ELSE total END) OVER (PARTITION BY customer_id ORDER BY placed, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS balance FROM orders
SELECT o.id, count(*) AS overlapping FROM orders o JOIN orders p ON o.id <> p.id AND p.placed BETWEEN o.placed - INTERVAL 10 DAY AND o.placed + INTERVAL 10 DAY GROUP BY o.id
SELECT DISTINCT customer_id, first_value(status) OVER (PARTITION BY customer_id ORDER BY id) AS first, last_value(status) OVER (PARTITION BY customer_id ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last FROM orders
SELECT CASE WHEN n = 1 THEN 'once' WHEN n BETWEEN 2 AND 3 THEN 'some' ELSE 'many' END AS bucket, count(*) AS customers, sum(t) AS total FROM (SELECT customer_id, count(*) AS n, sum(total) AS t FROM orders WHERE customer_id IS NOT NULL GROUP BY customer_id) GROUP BY bucket
SELECT least(floor(total / 50), 9)::INTEGER AS bin, count(*) AS n, round(avg(total), 2) AS a FROM orders WHERE total IS NOT NULL GROUP BY bin
SELECT upper(trim(name)) AS key, count(*) AS n, min(id) AS keep, string_agg(id::VARCHAR, ',' ORDER BY id DESC) AS ids FROM customers GROUP BY upper(trim(name)) HAVING count(*) > 1
SELECT e.kind, e.page, e.ms FROM events e JOIN (SELECT kind, max(ms) AS ms FROM events GROUP BY kind) m ON m.kind = e.kind AND m.ms = e.ms
SELECT o.customer_id, count(*) FILTER (WHERE o.placed >= DATE '2023-05-01') AS recent, count(*) FILTER (WHERE o.placed < DATE '2023-05-01') AS old, bool_or(o.placed >= DATE '2023-05-01') AND NOT bool_or(o.status = 'cancelled') AS loyal FROM orders o GROUP BY o.customer_id
SELECT coalesce(c.city, 'unknown') || '/' || coalesce(c.segment, '-') AS k, count(o.id) AS n, count(*) AS rows FROM customers c LEFT JOIN orders o ON c.id = o.customer_id AND o.status <> 'cancelled' GROUP BY 1
SELECT date_trunc('week', placed) AS w, sum(total) AS t, avg(sum(total)) OVER (ORDER BY date_trunc('week', placed) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS smooth FROM orders WHERE placed IS NOT NULL GROUP BY 1
SELECT m.m, c.segment, count(o.id) AS n FROM range(1, 10) m(m) CROSS JOIN (SELECT DISTINCT segment FROM customers) c LEFT JOIN (SELECT o.id, month(o.placed) AS m, x.segment FROM orders o JOIN customers x ON x.id = o.customer_id) o ON o.m = m.m AND o.segment IS NOT DISTINCT FROM c.segment GROUP BY ALL
SELECT customer_id, max(placed) AS last, CASE WHEN max(placed) < TIMESTAMP '2023-06-01' THEN 'churned' WHEN max(placed) IS NULL THEN 'never' ELSE 'active' END AS state FROM orders GROUP BY customer_id
SELECT id, extract(dow FROM placed) AS dow, extract(hour FROM placed) BETWEEN 9 AND 17 AS office, placed::DATE + 30 AS due, last_day(placed::DATE) AS eom, placed::TIME AS t FROM orders
SELECT split_part(email, '@', 1) AS who, email LIKE '%.com' AS com, email ILIKE 'U1%' AS one, regexp_matches(email, '^u\d+@x') AS x, substr(email, 2, 2) AS n, nullif(regexp_extract(email, '(\d+)', 1), '') AS digits FROM customers
SELECT x.segment, x.n, y.n AS m FROM (SELECT segment, count(*) AS n FROM customers GROUP BY 1) x LEFT JOIN (SELECT c.segment, count(DISTINCT o.customer_id) AS n FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY 1) y ON x.segment IS NOT DISTINCT FROM y.segment
SELECT status, sum(total * items) AS gross, sum(total * coalesce(discount, 0) / 100) AS off, sum(total)::DOUBLE / nullif(sum(items), 0) AS unit FROM orders GROUP BY status
SELECT kind, quantile_cont(ms, [0.5, 0.9, 0.99]) AS q, quantile_disc(ms, 0.5) AS med, avg(ms) FILTER (WHERE weight > 0.5) AS heavy, mad(ms) AS m FROM events GROUP BY kind
SELECT page, arg_max(kind, ms) AS k, max(ms) - min(ms) AS range, sum(weight) / nullif(count(weight), 0) AS w, variance(ms) AS v FROM events WHERE ms IS NOT NULL GROUP BY page HAVING count(DISTINCT ms) = count(*)
SELECT n, count(*) AS customers FROM (SELECT c.id, (SELECT count(*) FROM orders o WHERE o.customer_id = c.id) AS n FROM customers c) GROUP BY n
SELECT id, total, rank() OVER (ORDER BY total DESC NULLS LAST) AS r, dense_rank() OVER (ORDER BY total::INTEGER) AS d, ntile(3) OVER (PARTITION BY status ORDER BY total, id) AS t, lead(total, 2, 0) OVER (ORDER BY id) AS l FROM orders
SELECT (SELECT count(*) FROM customers) AS customers, (SELECT count(*) FROM orders WHERE status = 'paid') AS paid, (SELECT max(happened) FROM events) AS seen
SELECT s.kind, s.n, s.n * 100.0 / t.n AS pct FROM (SELECT kind, count(*) AS n FROM events GROUP BY kind) s CROSS JOIN (SELECT count(*) AS n FROM events) t
SELECT c.id, c.name, o.total FROM customers c JOIN orders o ON o.customer_id = c.id WHERE (o.total, o.id) IN (SELECT max(total), max(id) FROM orders GROUP BY customer_id)
SELECT c.id FROM customers c WHERE c.credit >= ANY (SELECT o.total FROM orders o WHERE o.customer_id = c.id)
SELECT c.id, c.segment, avg(c.credit) OVER (PARTITION BY c.segment) AS a, c.credit > avg(c.credit) OVER (PARTITION BY c.segment) AS above, count(*) OVER () AS all FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)
SELECT year, quarter, sum(t) AS t FROM (SELECT year(placed) AS year, quarter(placed) AS quarter, total AS t FROM orders UNION ALL SELECT year(happened), quarter(happened), weight::DECIMAL(12,2) FROM events) GROUP BY ROLLUP (year, quarter)
SELECT o.id, CASE WHEN c.id IS NULL THEN 'orphan' WHEN o.customer_id IS NULL THEN 'anonymous' ELSE 'ok' END AS kind FROM orders o LEFT JOIN customers c ON c.id = o.customer_id WHERE c.id IS NULL
SELECT d.customer_id, d.orders, d.spent, e.events, e.last FROM (SELECT customer_id, count(*) AS orders, sum(total) AS spent FROM orders GROUP BY customer_id) d FULL OUTER JOIN (SELECT customer_id, count(*) AS events, max(happened) AS last FROM events GROUP BY customer_id) e ON d.customer_id IS NOT DISTINCT FROM e.customer_id
SELECT id, items, [items, items * 2] AS l, list_transform([items, id], lambda x: x * 10) AS t, list_filter([1, 2, 3], lambda x: x > items) AS f, {'id': id, 'status': status} AS s FROM orders
SELECT customer_id, list(status ORDER BY id)[1:3] AS path, count(*) AS n, list_contains(list(status), 'cancelled') AS c FROM orders GROUP BY customer_id
SELECT path, count(*) AS n FROM (SELECT customer_id, string_agg(kind, ' > ' ORDER BY happened, kind, page, ms, weight) AS path FROM events WHERE customer_id IS NOT NULL GROUP BY customer_id) GROUP BY path
SELECT date_trunc('month', joined) AS cohort, count(*) AS n, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id)) AS converted FROM customers c GROUP BY 1
SELECT r.id, r.name, count(c.id) AS referred, sum(o.t) AS t FROM customers r LEFT JOIN customers c ON c.referred_by = r.id LEFT JOIN (SELECT customer_id, sum(total) AS t FROM orders GROUP BY 1) o ON o.customer_id = c.id GROUP BY r.id, r.name
SELECT a.id, b.id AS twin FROM customers a JOIN customers b ON a.id < b.id AND a.city = b.city AND (a.segment = b.segment OR a.segment IS NULL)
SELECT o.id, o.total + coalesce(lag(o.total) OVER (PARTITION BY o.customer_id ORDER BY o.id), 0) AS pair, round(o.total * 1.19, 2) AS gross, (o.total * 100)::BIGINT AS cents, o.total // 10 AS tens FROM orders o
SELECT * FROM (SELECT customer_id, status, total FROM orders) PIVOT (count(*) AS n, max(total) AS m FOR status IN ('paid', 'new') GROUP BY customer_id)
SELECT min(id) AS a, max(id) AS b, count(*) AS n FROM (SELECT id, id - row_number() OVER (ORDER BY id) AS g FROM orders WHERE status <> 'cancelled') GROUP BY g
SELECT page, kind, n, sum(n) OVER (PARTITION BY page ORDER BY n DESC, kind) AS running FROM (SELECT page, kind, count(*) AS n FROM events GROUP BY page, kind) WHERE n > 1
SELECT c.city, percentile_cont(0.5) WITHIN GROUP (ORDER BY o.total) AS med, min(o.items) AS least FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.city
SELECT o.status, count(*) AS n, count(*) FILTER (WHERE o.customer_id IN (SELECT id FROM customers WHERE segment = 'ent')) AS ent, avg(o.total) FILTER (WHERE o.note IS NOT NULL AND o.note <> '') AS noted FROM orders o GROUP BY o.status
SELECT e.customer_id, count(*) AS n FROM events e ANTI JOIN orders o ON o.customer_id = e.customer_id AND o.placed < e.happened GROUP BY e.customer_id
SELECT GREATEST(max(o.placed), max(e.happened)) AS last, c.id FROM customers c LEFT JOIN orders o ON o.customer_id = c.id LEFT JOIN events e ON e.customer_id = c.id GROUP BY c.id ORDER BY last DESC NULLS LAST, c.id LIMIT 5
SELECT c.id, x.kind, x.n FROM customers c LEFT JOIN LATERAL (SELECT kind, count(*) AS n FROM events e WHERE e.customer_id = c.id GROUP BY kind ORDER BY n DESC, kind LIMIT 1) x ON true
SELECT status, items, total, sum(total) OVER (PARTITION BY status ORDER BY items RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near, count(*) OVER (PARTITION BY status ORDER BY items GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING) AS g FROM orders

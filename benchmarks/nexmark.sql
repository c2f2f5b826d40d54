-- The queries of Nexmark (https://github.com/nexmark/nexmark) over tables instead of streams: a window of
-- time is a group by its start. Left out are q6, a window over an aggregate, and q10 and q11, files and sessions.

-- q0: what passes through
SELECT auction, bidder, price, date_time FROM bid
-- q1: prices in euros
SELECT auction, bidder, price * 0.908 AS price, date_time FROM bid
-- q2: bids on some auctions
SELECT auction, price FROM bid WHERE auction % 123 = 0
-- q3: sellers of some states in a category
SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
-- q4: the average final price of a category
SELECT category, avg(final) AS price FROM (
    SELECT max(b.price) AS final, a.category FROM auction a JOIN bid b ON a.id = b.auction
    WHERE b.date_time BETWEEN a.date_time AND a.expires GROUP BY a.id, a.category) GROUP BY category
-- q5: the auctions with the most bids in ten seconds, every two
WITH counted AS (
    SELECT auction, start, count(*) AS n FROM (
        SELECT auction, time_bucket(INTERVAL '2 seconds', date_time) - INTERVAL '2 seconds' * k AS start
        FROM bid CROSS JOIN (VALUES (0), (1), (2), (3), (4)) AS steps(k)) GROUP BY auction, start)
SELECT c.auction, c.start, c.n FROM counted c JOIN (SELECT start, max(n) AS most FROM counted GROUP BY start) m
ON c.start = m.start AND c.n = m.most
-- q7: the highest bids of ten seconds
SELECT b.auction, b.price, b.bidder, b.date_time FROM bid b JOIN (
    SELECT time_bucket(INTERVAL '10 seconds', date_time) AS start, max(price) AS most FROM bid GROUP BY 1) m
ON time_bucket(INTERVAL '10 seconds', b.date_time) = m.start AND b.price = m.most
-- q8: who came and sold within the same ten seconds
SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL '10 seconds', p.date_time) AS start
FROM person p JOIN auction a ON p.id = a.seller
AND time_bucket(INTERVAL '10 seconds', p.date_time) = time_bucket(INTERVAL '10 seconds', a.date_time)
-- q9: the winning bid of each auction
SELECT id, item_name, bidder, price FROM (
    SELECT a.id, a.item_name, b.bidder, b.price,
        row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place
    FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires) WHERE place = 1
-- q12: bids of each bidder in ten seconds
SELECT bidder, time_bucket(INTERVAL '10 seconds', date_time) AS start, count(*) AS bids FROM bid GROUP BY 1, 2
-- q13: bids with a table beside
SELECT b.auction, b.bidder, b.price, s.value FROM bid b JOIN side_input s ON b.auction % 100 = s.key
-- q14: conditions and texts
SELECT auction, bidder, price * 0.908 AS price, CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'day'
    WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'night' ELSE 'other' END AS part,
    length(extra) - length(replace(extra, 'c', '')) AS letters
FROM bid WHERE price * 0.908 > 1000000 AND price * 0.908 < 50000000
-- q15: counts of a day
SELECT CAST(date_time AS DATE) AS day, count(*) AS bids, count(*) FILTER (WHERE price < 10000) AS low,
    count(*) FILTER (WHERE price >= 1000000) AS high, count(DISTINCT bidder) AS bidders,
    count(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders, count(DISTINCT auction) AS auctions
FROM bid GROUP BY 1
-- q16: counts of a channel and a day
SELECT channel, CAST(date_time AS DATE) AS day, max(strftime(date_time, '%H:%M')) AS minute, count(*) AS bids,
    count(*) FILTER (WHERE price < 10000) AS low, count(DISTINCT bidder) AS bidders,
    count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
FROM bid GROUP BY 1, 2
-- q17: prices of an auction and a day
SELECT auction, CAST(date_time AS DATE) AS day, count(*) AS bids, count(*) FILTER (WHERE price < 10000) AS low,
    min(price) AS least, max(price) AS most, avg(price) AS mean, sum(price) AS total FROM bid GROUP BY 1, 2
-- q18: the last bid of each bidder on each auction
SELECT auction, bidder, price, date_time FROM (
    SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, price) AS place FROM bid)
WHERE place = 1
-- q19: the ten highest bids of each auction
SELECT auction, bidder, price, place FROM (
    SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, bidder) AS place FROM bid)
WHERE place <= 10
-- q20: bids with their auction, of a category
SELECT b.auction, b.bidder, b.price, a.item_name, a.seller FROM bid b JOIN auction a ON b.auction = a.id
WHERE a.category = 10
-- q21: the number of a channel
SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
    WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS number
FROM bid WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
-- q22: folders of an address
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
    split_part(url, '/', 6) AS dir3 FROM bid

-- Spending and budgets.

-- add_spending
INSERT INTO spending (day, account, owner, queue, definition, currency, gpu, compute)
VALUES (:day, :account, :owner, :queue, :definition, :currency, :gpu, :compute)
ON CONFLICT (day, account, owner, queue, definition, currency)
DO UPDATE SET gpu = gpu + excluded.gpu, compute = compute + excluded.compute;

-- spending_totals
-- total() is a float, and so cannot overflow; it is exact below 9 million units of the currency.
SELECT account, queue, currency, total(gpu) + total(compute) FROM spending WHERE day >= :since
GROUP BY account, queue, currency;

-- spending_by
SELECT {column}, currency, total(gpu), total(compute) FROM (
    SELECT account, owner, queue, definition, currency, gpu, compute FROM spending
    WHERE day BETWEEN :first AND :last LIMIT :limit
)
WHERE {condition} GROUP BY {column}, currency;

-- spending_beyond
-- The day of the first row that a page cannot read.
SELECT day FROM spending WHERE day BETWEEN :first AND :last ORDER BY day LIMIT 1 OFFSET :limit;

-- next_day_with_spending
SELECT min(day) FROM spending WHERE day > :after AND day < :before;

-- spending_of_day
SELECT account, owner, queue, definition, currency, gpu, compute FROM spending WHERE day = :day LIMIT :limit;

-- delete_spending
DELETE FROM spending WHERE day = :day AND account = :account AND owner = :owner AND queue = :queue
    AND definition = :definition AND currency = :currency;

-- budgets
SELECT value FROM budgets ORDER BY scope, name;

-- put_budget
INSERT INTO budgets (scope, name, value) VALUES (:scope, :name, :value)
ON CONFLICT (scope, name) DO UPDATE SET value = excluded.value;

-- delete_budget
DELETE FROM budgets WHERE scope = :scope AND name = :name;

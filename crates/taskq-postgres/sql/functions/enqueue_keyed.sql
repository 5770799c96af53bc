-- As enqueue_many, for a connection on which others wait behind this call: when another transaction is about to take one of
-- the idempotency keys, it waits for 100 ms and gives up (55P03) with nothing written.
-- Called by: clients that share a connection, again and again until the key is free. Locks and indexes: see enqueue_many.
CREATE OR REPLACE FUNCTION "{schema}".enqueue_keyed(jobs jsonb)
RETURNS TABLE (id uuid, outcome text, status text)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
AS $$ SELECT e.id, e.outcome, e.status FROM "{schema}".enqueue_many(jobs) e $$;

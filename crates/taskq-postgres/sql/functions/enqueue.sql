-- Inserts one job: `created`, or `existing` where the id is taken.
-- Called by: clients. Locks and indexes: see enqueue_many.
CREATE OR REPLACE FUNCTION "{schema}".enqueue(job jsonb)
RETURNS TABLE (id uuid, outcome text, status text)
LANGUAGE sql VOLATILE
AS $$
    SELECT e.id, e.outcome, e.status FROM "{schema}".enqueue_many(pg_catalog.jsonb_build_array(job)) e
$$;

-- Tells listeners that queues have ready jobs, and the leader that something is due before it looks again.
-- Called by: enqueue_many, settle, release_worker, promote. Locks: none of ours (PostgreSQL's own at commit).
-- Indexes: none. PostgreSQL sends one notification per distinct text and transaction.
CREATE OR REPLACE FUNCTION "{schema}".wake(ready text[], due boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF ready IS NOT NULL THEN
        PERFORM pg_catalog.pg_notify('{schema}:ready', r.queue) FROM unnest(ready) r(queue);
    END IF;
    IF due THEN
        PERFORM pg_catalog.pg_notify('{schema}:due', '');
    END IF;
END
$$;

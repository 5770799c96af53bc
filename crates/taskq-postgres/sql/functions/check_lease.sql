-- Raises TQ002 unless the worker id is given and the lease lies between 1 second and 1 day.
-- Called by: register_worker, check_claim, heartbeat, hold_hook. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".check_lease(worker uuid, lease interval) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF worker IS NULL THEN
        PERFORM "{schema}".refuse('worker is null');
    ELSIF lease IS NULL OR lease < interval '1 second' OR lease > interval '1 day' THEN
        PERFORM "{schema}".refuse(pg_catalog.format('lease is %s, not between 1 second and 1 day', coalesce(lease::text, 'null')));
    END IF;
END
$$;

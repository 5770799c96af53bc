-- Raises TQ004 unless the transaction is READ COMMITTED.
-- Called by: claim, settle, heartbeat, the sweeps. Locks: none. Indexes: none.
-- Those functions lock a row and then look again; with one snapshot for the whole transaction the second look
-- would see what was there before the lock.
CREATE OR REPLACE FUNCTION "{schema}".require_read_committed(caller text) RETURNS void
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING ERRCODE = 'TQ004',
            MESSAGE = pg_catalog.format('%s needs READ COMMITTED, the transaction is %s', caller,
                pg_catalog.upper(pg_catalog.current_setting('transaction_isolation')));
    END IF;
END
$$;

-- Takes the leader's lease if nobody holds it, renews it if this worker does; returns the leader's epoch, or
-- NULL when another worker leads.
-- Called by: heartbeat. Locks: the leader's row, SKIP LOCKED: FOR NO KEY UPDATE to renew, which lets the
-- leader's own sweeps go on; FOR UPDATE to take over, which a sweep of the leader before holds off.
-- Indexes: leader_pkey.
CREATE OR REPLACE FUNCTION "{schema}".lead(worker uuid, leadership interval) RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    seat record;
BEGIN
    SELECT s.worker, s.epoch, s.expires_at INTO seat FROM "{schema}".leader s WHERE s.only_row;
    IF seat.worker = lead.worker AND seat.expires_at > now THEN
        PERFORM FROM "{schema}".leader s WHERE s.only_row AND s.worker = lead.worker AND s.epoch = seat.epoch
        FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            UPDATE "{schema}".leader s SET expires_at = now + leadership WHERE s.only_row;
            RETURN seat.epoch;
        END IF;
        -- Somebody is taking over.
        RETURN NULL;
    END IF;
    IF seat.worker IS NOT NULL AND seat.expires_at > now THEN
        RETURN NULL;
    END IF;
    PERFORM FROM "{schema}".leader s WHERE s.only_row AND s.epoch = seat.epoch
        AND (s.worker IS NULL OR s.expires_at <= now)
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE "{schema}".leader s SET worker = lead.worker, epoch = s.epoch + 1, expires_at = now + leadership WHERE s.only_row;
    RETURN seat.epoch + 1;
END
$$;

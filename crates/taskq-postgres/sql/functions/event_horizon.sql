-- The transaction up to which the feed of events can be told: every one before it is over. Raises TQ002 for a place that no
-- reader of this server can have reached, since its events would be waited for until the server's counter comes there.
-- `after_xid` is the transaction of the place behind which events are asked for; NULL is none.
-- Called by: the query events; readers in other languages. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".event_horizon(after_xid text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    present pg_snapshot := pg_current_snapshot();
BEGIN
    IF after_xid::xid8 > pg_snapshot_xmax(present) THEN
        -- Not by way of refuse(), which only the owner may call.
        RAISE EXCEPTION USING ERRCODE = 'TQ002', MESSAGE = format('the cursor of transaction %s is of another server, or of this '
            'one before it was restored: its next transaction is %s; begin anew, from now on (no cursor) or with 0-0 for all '
            'that is kept', after_xid, pg_snapshot_xmax(present));
    END IF;
    RETURN pg_snapshot_xmin(present)::text;
END
$$;

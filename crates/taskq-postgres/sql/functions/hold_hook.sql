-- Takes the hook of ends of a name for a holder, or renews its hold, for `lease`, and says behind which event of the feed
-- the hook goes on; no row while another holder has it. A new hook begins with about now.
-- What the holder has dealt with, up to `reached_xid` and `reached_id`, is noted if it still holds the hook. A lease of zero
-- gives the hook back. Raises TQ002 while the setting event_level leaves ends untold.
-- Called by: workers that have the hook. Locks: the hook's row, SKIP LOCKED. Indexes: hooks_pkey, settings_pkey.
CREATE OR REPLACE FUNCTION "{schema}".hold_hook(
    hook text, holder uuid, lease interval, reached_xid text DEFAULT NULL, reached_id bigint DEFAULT NULL
) RETURNS TABLE (xid text, id bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    gives_back boolean := coalesce(lease = interval '0', false);
    level text := "{schema}".event_level();
    held record;
    place record;
BEGIN
    PERFORM "{schema}".require_read_committed('hold_hook');
    IF hook IS NULL OR holder IS NULL OR (reached_xid IS NULL) <> (reached_id IS NULL) THEN
        PERFORM "{schema}".refuse('the hook, its holder or half of what was reached is null');
    ELSIF "{schema}".name_problem('hook', hook) IS NOT NULL THEN
        PERFORM "{schema}".refuse("{schema}".name_problem('hook', hook));
    ELSIF NOT gives_back THEN
        PERFORM "{schema}".check_lease(holder, lease);
        IF level NOT IN ('ends', 'all') THEN
            PERFORM "{schema}".refuse(format(
                'the setting event_level is "%s", at which not every end of a job is told: set it to "ends" or "all"', level));
        END IF;
        IF NOT EXISTS (SELECT FROM "{schema}".hooks h WHERE h.hook = hold_hook.hook) THEN
            INSERT INTO "{schema}".hooks (hook, xid, id) VALUES (hook, pg_snapshot_xmin(pg_current_snapshot()), 0)
            ON CONFLICT ON CONSTRAINT hooks_pkey DO NOTHING;
        END IF;
    END IF;
    -- Without a lock first: whoever asks in vain writes nothing.
    IF EXISTS (SELECT FROM "{schema}".hooks h
        WHERE h.hook = hold_hook.hook AND h.holder <> hold_hook.holder AND h.held_until > now)
    THEN
        RETURN;
    END IF;
    SELECT h.xid, h.id, h.holder, h.held_until INTO held FROM "{schema}".hooks h WHERE h.hook = hold_hook.hook
    FOR NO KEY UPDATE OF h SKIP LOCKED;
    IF NOT FOUND OR held.holder <> hold_hook.holder AND held.held_until > now THEN
        RETURN;
    END IF;
    SELECT p.xid, p.id INTO place
    FROM (VALUES (held.xid, held.id), (reached_xid::xid8, reached_id)) p(xid, id)
    -- What was dealt with under a hold that is over is dealt with again.
    WHERE p.xid IS NOT NULL AND (held.holder = hold_hook.holder OR (p.xid, p.id) = (held.xid, held.id))
    ORDER BY p.xid DESC, p.id DESC LIMIT 1;
    IF place.xid > pg_snapshot_xmax(pg_current_snapshot()) THEN
        -- Of another server, from which this database was restored: nothing would be told for a long time.
        SELECT pg_snapshot_xmin(pg_current_snapshot()), 0::bigint INTO place.xid, place.id;
    END IF;
    UPDATE "{schema}".hooks h
    SET xid = place.xid, id = place.id, holder = CASE WHEN NOT gives_back THEN hold_hook.holder END,
        -- Of one that is given back: until when it was held.
        held_until = now + lease
    WHERE h.hook = hold_hook.hook;
    RETURN QUERY SELECT place.xid::text, place.id;
END
$$;

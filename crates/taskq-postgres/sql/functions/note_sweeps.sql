-- Writes down what became of sweeps: one row per element of `notes`, which is {"sweep", "batch", "reached_at", "reached_id",
-- "overrides"} and, where something happened, "ran": {"ago", "took", "rows", "rows_since"} and "error": {"ago", "message"}.
-- Called by: the leader, no more than every few seconds and only when something happened. Locks: the leader's row FOR KEY
-- SHARE, the sweeps' rows. Indexes: sweeps_pkey.
CREATE OR REPLACE FUNCTION "{schema}".note_sweeps(leader uuid, leader_epoch bigint, notes jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
BEGIN
    PERFORM "{schema}".require_read_committed('note_sweeps');
    PERFORM "{schema}".require_leader(leader, leader_epoch, true);
    INSERT INTO "{schema}".sweeps AS s (sweep, epoch, last_run_at, duration, rows, swept, batch, reached_at, reached_id, last_error,
        last_error_at, overrides)
    SELECT n.note ->> 'sweep', leader_epoch, now - (n.note #>> '{ran,ago}')::interval, (n.note #>> '{ran,took}')::interval,
        coalesce((n.note #>> '{ran,rows}')::bigint, 0), coalesce((n.note #>> '{ran,rows_since}')::bigint, 0),
        (n.note ->> 'batch')::integer, (n.note ->> 'reached_at')::timestamptz, n.note ->> 'reached_id',
        "{schema}".clip(n.note #>> '{error,message}', 65536), now - (n.note #>> '{error,ago}')::interval,
        nullif(n.note -> 'overrides', 'null')
    FROM jsonb_array_elements(notes) n(note)
    ORDER BY 1
    ON CONFLICT ON CONSTRAINT sweeps_pkey DO UPDATE
    SET epoch = excluded.epoch,
        last_run_at = coalesce(excluded.last_run_at, s.last_run_at),
        duration = coalesce(excluded.duration, s.duration),
        rows = CASE WHEN excluded.last_run_at IS NULL THEN s.rows ELSE excluded.rows END,
        swept = s.swept + excluded.swept,
        batch = excluded.batch,
        reached_at = excluded.reached_at,
        reached_id = excluded.reached_id,
        last_error = coalesce(excluded.last_error, s.last_error),
        last_error_at = coalesce(excluded.last_error_at, s.last_error_at),
        overrides = excluded.overrides;
END
$$;

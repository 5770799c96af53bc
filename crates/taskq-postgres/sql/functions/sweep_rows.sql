-- Does what a sweep does to rows of `jobs` that are locked; halves the batch at an error, down to the one row that raises
-- it. That one is counted among the problems and left as it is.
-- Called by: the sweeps that change jobs, itself. Locks: none further. Indexes: jobs_pkey.
-- A statement that is cancelled, as by its timeout, ends the whole batch: that is no error of a row.
CREATE OR REPLACE FUNCTION "{schema}".sweep_rows(sweep text, tids tid[], now timestamptz)
RETURNS TABLE (swept bigint, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    half integer := cardinality(tids) / 2;
    raised text;
    first_half record;
    second_half record;
BEGIN
    IF sweep NOT IN ('promote', 'deadlines', 'results') THEN
        PERFORM "{schema}".refuse(format('the sweep %s changes no jobs', sweep));
    ELSIF tids IS NULL THEN
        RETURN QUERY SELECT 0::bigint, 0::bigint, NULL::text;
        RETURN;
    END IF;
    BEGIN
        CASE sweep
            WHEN 'promote' THEN
                UPDATE "{schema}".jobs j SET status = 'pending' WHERE j.ctid = ANY (tids);
            WHEN 'deadlines' THEN
                IF "{schema}".event_level() <> 'off' THEN
                    INSERT INTO "{schema}".job_events (job_id, occurred_at, kind)
                    SELECT j.id, now, 'expired' FROM "{schema}".jobs j WHERE j.ctid = ANY (tids);
                END IF;
                UPDATE "{schema}".jobs j
                SET status = 'failed', finished_at = now, prune_at = "{schema}".hot_until(now, 'failed', j.actor),
                    error = '{"class": "deadline", "message": "the deadline passed before an attempt started"}'
                WHERE j.ctid = ANY (tids);
            WHEN 'results' THEN
                UPDATE "{schema}".jobs j SET result = NULL WHERE j.ctid = ANY (tids);
        END CASE;
    EXCEPTION WHEN OTHERS THEN
        -- No fault of a row: a server without means, or one that stops.
        IF left(SQLSTATE, 2) IN ('53', '57', '58') THEN
            RAISE;
        END IF;
        raised := format('%s (SQLSTATE %s)', SQLERRM, SQLSTATE);
    END;
    IF raised IS NULL THEN
        RETURN QUERY SELECT cardinality(tids)::bigint, 0::bigint, NULL::text;
    ELSIF half = 0 THEN
        RETURN QUERY SELECT 0::bigint, 1::bigint, format('job %s: %s', j.id, raised) FROM "{schema}".jobs j WHERE j.ctid = tids[1];
    ELSE
        SELECT r.* INTO first_half FROM "{schema}".sweep_rows(sweep, tids[:half], now) r;
        SELECT r.* INTO second_half FROM "{schema}".sweep_rows(sweep, tids[half + 1:], now) r;
        RETURN QUERY SELECT first_half.swept + second_half.swept, first_half.problems + second_half.problems,
            coalesce(first_half.problem, second_half.problem);
    END IF;
END
$$;

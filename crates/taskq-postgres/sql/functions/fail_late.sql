-- Fails the ready jobs of the given lanes whose deadline has passed, among the first thousand or so; returns how many.
-- Without `lane_cohorts` the lanes are those of the jobs without a cohort.
-- Called by: claim_group, claim_lane, claim_turns, when they meet one. Locks: the jobs, SKIP LOCKED. Indexes: jobs_ready_idx.
-- The heads of the lanes are read without a filter, so the number of rows read is bounded whatever they say. When all
-- of them were too late, more may follow: the workers are woken to look again.
DROP FUNCTION IF EXISTS "{schema}".fail_late(text[], text[], timestamptz);
CREATE OR REPLACE FUNCTION "{schema}".fail_late(
    lane_queues text[], lane_actors text[], now timestamptz, lane_cohorts text[] DEFAULT NULL
) RETURNS integer
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    depth integer := greatest(1000 / cardinality(lane_actors), 10);
    tids tid[];
    crowded boolean;
BEGIN
    SELECT array_agg(k.tid), bool_or(h.nth = depth) INTO tids, crowded
    FROM unnest(lane_queues, lane_actors, lane_cohorts) l(queue, actor, cohort)
    CROSS JOIN LATERAL (
        SELECT r.tid, r.late, row_number() OVER () AS nth
        FROM (
            SELECT j.ctid AS tid, j.schedule_to_close <= now AS late FROM "{schema}".jobs j
            WHERE j.queue = l.queue AND j.actor = l.actor AND j.cohort = coalesce(l.cohort, '') AND j.status = 'pending'
            ORDER BY j.priority DESC, j.scheduled_at, j.id
            LIMIT depth
        ) r
    ) h
    CROSS JOIN LATERAL (
        SELECT j.ctid AS tid FROM "{schema}".jobs j
        WHERE j.ctid = h.tid AND j.status::text = 'pending' AND j.schedule_to_close <= now
        FOR NO KEY UPDATE OF j SKIP LOCKED
    ) k
    WHERE h.late;
    IF "{schema}".event_level() <> 'off' THEN
        INSERT INTO "{schema}".job_events (job_id, occurred_at, kind)
        SELECT j.id, now, 'expired' FROM "{schema}".jobs j WHERE j.ctid = ANY (tids);
    END IF;
    UPDATE "{schema}".jobs j
    SET status = 'failed', finished_at = now, prune_at = "{schema}".hot_until(now, 'failed', j.actor),
        error = '{"class": "deadline", "message": "the deadline passed before an attempt started"}'
    WHERE j.ctid = ANY (tids);
    IF crowded THEN
        PERFORM "{schema}".wake(lane_queues);
    END IF;
    RETURN coalesce(cardinality(tids), 0);
END
$$;

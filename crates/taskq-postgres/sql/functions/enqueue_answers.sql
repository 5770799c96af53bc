-- What became of the jobs of a call, one row each, in the order of `ids`: of those at the places `keyed` their idempotency
-- keys decide, of the others whether they are among `created`, the ids that were written.
-- Called by: enqueue_many, when not all of its jobs are new and pending. Locks: none. Indexes: jobs_pkey; see archived_job.
-- A later statement than the insert, so that it sees what a concurrent call with the same id has committed.
CREATE OR REPLACE FUNCTION "{schema}".enqueue_answers(
    ids uuid[], created uuid[], keyed bigint[], key_jobs uuid[], key_outcomes text[], key_actors text[])
RETURNS TABLE (nth bigint, id uuid, outcome text, status text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    IF EXISTS (
        SELECT FROM unnest(key_jobs, key_outcomes, key_actors) k(id, outcome, actor)
        LEFT JOIN LATERAL (SELECT j.actor FROM "{schema}".jobs j WHERE j.id = k.id OFFSET 0) j ON true
        WHERE k.outcome <> 'existing' AND coalesce(j.actor, ("{schema}".archived_job(k.id)).actor) <> k.actor
    ) THEN
        -- The key would stand for a job that is not this actor's.
        PERFORM "{schema}".refuse('an idempotency key cannot be bound to an id that a job of another actor has');
    END IF;
    RETURN QUERY
        SELECT n.nth, n.job_id,
            CASE WHEN n.key_outcome = 'existing' THEN 'existing'
                WHEN n.first AND c.id IS NOT NULL THEN coalesce(n.key_outcome, 'created')
                ELSE 'existing' END,
            coalesce(j.status::text, ("{schema}".archived_job(n.job_id)).status)
        FROM (
            SELECT u.nth, coalesce(k.job_id, u.id) AS job_id, k.outcome AS key_outcome,
                row_number() OVER (PARTITION BY u.id, k.outcome IS NOT DISTINCT FROM 'existing' ORDER BY u.nth) = 1 AS first
            FROM unnest(ids) WITH ORDINALITY u(id, nth)
            LEFT JOIN unnest(keyed, key_jobs, key_outcomes) k(nth, job_id, outcome) ON k.nth = u.nth
        ) n
        LEFT JOIN unnest(created) c(id) ON c.id = n.job_id
        LEFT JOIN LATERAL (SELECT j.status FROM "{schema}".jobs j WHERE j.id = n.job_id OFFSET 0) j ON true
        ORDER BY n.nth;
END
$$;

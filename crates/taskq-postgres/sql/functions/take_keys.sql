-- Takes idempotency keys, in their order, for the jobs at the places `nths` of a call: one row each. `outcome` is created
-- (the key is this job's now), replaced (it was of a job that has ended, and `again` said so) or existing (it is of another
-- job, `job_id`, and this one is not to be written).
-- Called by: enqueue_many, when a document has a key. Locks: the keys' rows; a key that another transaction is about to
-- take is waited for. Indexes: idempotency_keys_pkey, jobs_pkey.
CREATE OR REPLACE FUNCTION "{schema}".take_keys(
    nths bigint[], actors text[], keys text[], wanted uuid[], again boolean[], now timestamptz)
RETURNS TABLE (nth bigint, job_id uuid, outcome text, actor text)
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    expiry timestamptz := now + interval '7 days';
    created uuid[];
    replaced uuid[];
BEGIN
    WITH taken AS (
        INSERT INTO "{schema}".idempotency_keys AS k (actor, idempotency_key, job_id, expires_at)
        SELECT DISTINCT ON (u.actor, u.key) u.actor, u.key, u.id, expiry
        FROM unnest(nths, actors, keys, wanted) u(nth, actor, key, id)
        ORDER BY u.actor, u.key, u.nth
        -- A key that has expired counts as absent.
        ON CONFLICT ON CONSTRAINT idempotency_keys_pkey DO UPDATE SET job_id = excluded.job_id, expires_at = excluded.expires_at
        WHERE k.expires_at <= now
        RETURNING k.job_id
    )
    SELECT array_agg(t.job_id) INTO created FROM taken t;

    IF true = ANY (again) THEN
        -- The rows are locked by the attempt to take them, so what is seen here cannot change any more.
        WITH moved AS (
            UPDATE "{schema}".idempotency_keys k SET job_id = u.id, expires_at = expiry
            FROM (
                SELECT DISTINCT ON (u.actor, u.key) u.actor, u.key, u.id
                FROM unnest(nths, actors, keys, wanted, again) u(nth, actor, key, id, again)
                WHERE u.again
                ORDER BY u.actor, u.key, u.nth
            ) u
            WHERE k.actor = u.actor AND k.idempotency_key = u.key AND k.job_id <> u.id AND k.job_id <> ALL (coalesce(created, '{}'))
                AND NOT EXISTS (
                    SELECT FROM "{schema}".jobs j
                    WHERE j.id = k.job_id AND j.status::text IN ('scheduled', 'blocked', 'pending', 'running'))
            RETURNING k.job_id
        )
        SELECT array_agg(m.job_id) INTO replaced FROM moved m;
    END IF;

    RETURN QUERY
        SELECT u.nth, k.job_id, CASE
            WHEN k.job_id = u.id AND c.id IS NOT NULL THEN 'created'
            WHEN k.job_id = u.id AND r.id IS NOT NULL THEN 'replaced'
            ELSE 'existing' END, u.actor
        FROM unnest(nths, actors, keys, wanted) u(nth, actor, key, id)
        LEFT JOIN unnest(created) c(id) ON c.id = u.id
        LEFT JOIN unnest(replaced) r(id) ON r.id = u.id
        CROSS JOIN LATERAL (
            SELECT k.job_id FROM "{schema}".idempotency_keys k WHERE k.actor = u.actor AND k.idempotency_key = u.key OFFSET 0
        ) k;
END
$$;

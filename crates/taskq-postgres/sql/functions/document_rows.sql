-- The rows of `jobs` that valid documents stand for, without those at the places `passed_over`.
-- Called by: enqueue_many. Locks: none. Indexes: none.
-- A single query, which the planner puts in place of the call. The columns are in the order in which enqueue_many writes them.
CREATE OR REPLACE FUNCTION "{schema}".document_rows(jobs jsonb, ids uuid[], passed_over bigint[], now timestamptz)
RETURNS TABLE (
    nth bigint, id uuid, created_at timestamptz, priority smallint, max_attempts smallint, payload_version integer,
    scheduled_at timestamptz, status "{schema}".job_status, queue text, actor text, payload jsonb,
    schedule_to_close timestamptz, start_to_close interval, retry_policy jsonb, trace_context text, metadata jsonb, tags text[],
    fairness_key text, cohort text, keep text)
LANGUAGE sql STABLE
AS $$
    SELECT d.nth, d.id, now,
        coalesce((d.job ->> 'priority')::numeric::smallint, 0::smallint),
        coalesce((d.job ->> 'max_attempts')::numeric::smallint, 20::smallint),
        coalesce((d.job ->> 'payload_version')::numeric::integer, 1),
        t.scheduled_at, CASE WHEN t.scheduled_at > now THEN 'scheduled' ELSE 'pending' END::"{schema}".job_status,
        coalesce(d.job ->> 'queue', 'default'), d.job ->> 'actor', d.job -> 'payload',
        (d.job ->> 'schedule_to_close')::timestamptz, (d.job ->> 'start_to_close')::interval,
        nullif(d.job -> 'retry_policy', 'null'), d.job ->> 'trace_context', nullif(d.job -> 'metadata', 'null'),
        CASE WHEN jsonb_typeof(d.job -> 'tags') = 'array' AND d.job -> 'tags' <> '[]'
            THEN ARRAY(SELECT t.tag FROM jsonb_array_elements_text(d.job -> 'tags') t(tag)) END,
        d.job ->> 'fairness_key', coalesce(d.job ->> 'fairness_key', ''), nullif(d.job ->> 'keep', 'all')
    FROM ROWS FROM (jsonb_array_elements(jobs), unnest(ids)) WITH ORDINALITY d(job, id, nth)
    CROSS JOIN LATERAL (
        SELECT coalesce((d.job ->> 'scheduled_at')::timestamptz, now + (d.job ->> 'delay')::interval, now) AS scheduled_at
    ) t
    LEFT JOIN unnest(passed_over) p(nth) ON p.nth = d.nth
    WHERE p.nth IS NULL
$$;

-- Finds the first job document that cannot be enqueued: its index, what is wrong, and the error code.
-- Called by: enqueue_many. Locks: none. Indexes: none.
-- The one place where a job is validated. One pass over the documents and one over their fields, both
-- set-based; only documents with times or a retry policy take the slower checks.
CREATE OR REPLACE FUNCTION "{schema}".job_problem(
    jobs jsonb, now timestamptz, OUT element bigint, OUT problem text, OUT code text
)
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    SELECT d.nth - 1, p.problem, coalesce(p.code, 'TQ002') INTO element, problem, code
    FROM jsonb_array_elements(jobs) WITH ORDINALITY d(job, nth)
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN jsonb_typeof(d.job) <> 'object' THEN format('a JSON %s, not an object', jsonb_typeof(d.job))
            WHEN coalesce(jsonb_typeof(d.job -> 'actor'), 'null') = 'null' THEN 'actor is missing'
            WHEN NOT d.job ? 'payload' THEN 'payload is missing'
            WHEN d.job ? 'retry_policy' AND jsonb_typeof(d.job -> 'retry_policy') <> 'null'
                AND "{schema}".retry_policy_problem(d.job -> 'retry_policy') IS NOT NULL
                THEN "{schema}".retry_policy_problem(d.job -> 'retry_policy')
        END AS problem, NULL::text AS code
        UNION ALL
        SELECT f.problem, f.code
        FROM jsonb_each(CASE WHEN jsonb_typeof(d.job) = 'object' THEN d.job ELSE '{}' END) e(field, value)
        CROSS JOIN LATERAL (
            SELECT CASE
                -- what each field must be
                WHEN e.field = 'payload' THEN CASE
                    WHEN octet_length(e.value::text) > 1048576
                        THEN format('payload has %s bytes, more than 1048576', octet_length(e.value::text)) END
                WHEN e.field IN ('queue', 'actor', 'identity_key', 'fairness_key', 'unique_key', 'idempotency_key',
                        'trace_context') THEN CASE
                    WHEN jsonb_typeof(e.value) = 'null' THEN NULL
                    WHEN jsonb_typeof(e.value) <> 'string'
                        THEN format('%s is a JSON %s, not a string', e.field, jsonb_typeof(e.value))
                    ELSE "{schema}".name_problem(e.field, e.value #>> '{}') END
                WHEN e.field IN ('id', 'scheduled_at', 'delay', 'schedule_to_close', 'start_to_close', 'keep', 'notify',
                        'on_finished') THEN CASE
                    WHEN jsonb_typeof(e.value) = 'null' THEN NULL
                    WHEN jsonb_typeof(e.value) <> 'string'
                        THEN format('%s is a JSON %s, not a string', e.field, jsonb_typeof(e.value))
                    WHEN e.field = 'id' AND e.value #>> '{}'
                        !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' THEN 'id is not a UUID'
                    WHEN e.field = 'notify' AND e.value #>> '{}' NOT IN ('default', 'none')
                        THEN 'notify is neither "default" nor "none"'
                    WHEN e.field = 'on_finished' AND e.value #>> '{}' NOT IN ('return', 'run_again')
                        THEN 'on_finished is neither "return" nor "run_again"' END
                WHEN e.field IN ('priority', 'max_attempts', 'payload_version') THEN CASE
                    WHEN jsonb_typeof(e.value) = 'null' THEN NULL
                    WHEN jsonb_typeof(e.value) <> 'number'
                        THEN format('%s is a JSON %s, not a number', e.field, jsonb_typeof(e.value))
                    WHEN (e.value)::numeric <> trunc((e.value)::numeric) THEN e.field || ' is not a whole number'
                    WHEN e.field = 'priority' AND (e.value)::numeric NOT BETWEEN -32768 AND 32767
                        THEN 'priority is not between -32768 and 32767'
                    WHEN e.field = 'max_attempts' AND (e.value)::numeric NOT BETWEEN 1 AND 32767
                        THEN 'max_attempts is not between 1 and 32767'
                    WHEN e.field = 'payload_version' AND (e.value)::numeric NOT BETWEEN 1 AND 2147483647
                        THEN 'payload_version is not between 1 and 2147483647' END
                WHEN e.field = 'tags' THEN CASE
                    WHEN jsonb_typeof(e.value) = 'null' THEN NULL
                    WHEN jsonb_typeof(e.value) <> 'array'
                        THEN format('tags is a JSON %s, not an array', jsonb_typeof(e.value))
                    WHEN jsonb_array_length(e.value) > 64
                        THEN format('tags has %s entries, more than 64', jsonb_array_length(e.value))
                    ELSE (
                        SELECT CASE WHEN jsonb_typeof(t.tag) <> 'string'
                                THEN format('a tag is a JSON %s, not a string', jsonb_typeof(t.tag))
                            ELSE "{schema}".name_problem('a tag', t.tag #>> '{}') END
                        FROM jsonb_array_elements(e.value) t(tag)
                        WHERE jsonb_typeof(t.tag) <> 'string' OR "{schema}".name_problem('a tag', t.tag #>> '{}') IS NOT NULL
                        LIMIT 1) END
                WHEN e.field = 'metadata' THEN CASE
                    WHEN jsonb_typeof(e.value) = 'null' THEN NULL
                    WHEN jsonb_typeof(e.value) <> 'object'
                        THEN format('metadata is a JSON %s, not an object', jsonb_typeof(e.value))
                    WHEN octet_length(e.value::text) > 65536
                        THEN format('metadata has %s bytes, more than 65536', octet_length(e.value::text)) END
                WHEN e.field = 'retry_policy' THEN NULL
                ELSE format('unknown field "%s"', left(e.field, 255)) END AS problem
        ) typed
        CROSS JOIN LATERAL (
            SELECT coalesce(typed.problem, CASE
                    WHEN jsonb_typeof(e.value) = 'null' THEN NULL
                    -- A queue in strict order has no turns, so the key would silently do nothing.
                    WHEN e.field = 'fairness_key' THEN 'fairness_key needs a queue in round_robin mode'
                    WHEN e.field = 'on_finished' AND coalesce(jsonb_typeof(d.job -> 'idempotency_key'), 'null') = 'null'
                        THEN 'on_finished needs an idempotency_key'
                    WHEN e.field IN ('identity_key', 'unique_key', 'keep')
                        THEN e.field || ' is not supported by this version' END) AS problem,
                CASE WHEN typed.problem IS NULL AND e.field IN ('identity_key', 'unique_key', 'keep') THEN 'TQ003' END AS code
        ) f
        UNION ALL
        SELECT "{schema}".time_problem(d.job, now), NULL
        WHERE jsonb_typeof(d.job) = 'object'
            AND d.job ?| ARRAY['scheduled_at', 'delay', 'schedule_to_close', 'start_to_close']
    ) p
    WHERE p.problem IS NOT NULL
    LIMIT 1;
END
$$;

-- The jobs of the session's staging table as documents.
-- Called by: check_staged; enqueue_staged, when an id is taken. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".staged_documents() RETURNS TABLE (nth integer, id uuid, job jsonb)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
        SELECT s.nth, s.id, d.job
        FROM pg_temp."{schema}_staged" s
        CROSS JOIN LATERAL (
            SELECT jsonb_object_agg(f.field, f.value) AS job
            FROM (VALUES
                ('id', to_jsonb(s.id)), ('queue', to_jsonb(s.queue)), ('actor', to_jsonb(s.actor)), ('payload', s.payload),
                ('payload_version', to_jsonb(s.payload_version)), ('priority', to_jsonb(s.priority)),
                ('max_attempts', to_jsonb(s.max_attempts)), ('notify', to_jsonb(s.notify)),
                ('scheduled_at', to_jsonb(s.scheduled_at)), ('delay', to_jsonb(s.delay)),
                ('schedule_to_close', to_jsonb(s.schedule_to_close)), ('start_to_close', to_jsonb(s.start_to_close)),
                ('retry_policy', s.retry_policy), ('trace_context', to_jsonb(s.trace_context)), ('metadata', s.metadata),
                ('tags', to_jsonb(s.tags)), ('fairness_key', to_jsonb(s.fairness_key)), ('keep', to_jsonb(s.keep))
            ) f(field, value)
            WHERE f.value IS NOT NULL
        ) d;
END
$$;

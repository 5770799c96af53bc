-- Says what is wrong with the rest of an outcome's document, that is without id and epoch; NULL if nothing.
-- Called by: outcome_problem, settle_batch. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".detail_problem(outcome text, detail jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    rest jsonb;
    bytes integer;
BEGIN
    IF outcome IS NULL OR outcome NOT IN ('succeeded', 'failed', 'snoozed', 'cancelled', 'released', 'abandoned') THEN
        RETURN 'outcome is not one of succeeded, failed, snoozed, cancelled, released, abandoned';
    ELSIF detail IS NULL THEN
        RETURN CASE WHEN outcome = 'snoozed' THEN 'snoozed needs a delay' END;
    ELSIF jsonb_typeof(detail) <> 'object' THEN
        RETURN format('a JSON %s, not an object', jsonb_typeof(detail));
    END IF;
    rest := detail - ARRAY['result', 'error', 'delay', 'final'];
    IF rest <> '{}' THEN
        RETURN (SELECT format('unknown field "%s"', left(k, 255)) FROM jsonb_object_keys(rest) k LIMIT 1);
    END IF;
    IF detail ? 'result' THEN
        IF outcome <> 'succeeded' THEN
            RETURN 'result belongs to succeeded';
        END IF;
        bytes := "{schema}".json_bytes(detail -> 'result', 1048576);
        IF bytes > 1048576 THEN
            RETURN format('result has %s bytes, more than 1048576', bytes);
        END IF;
    END IF;
    RETURN CASE
        WHEN detail ? 'error' AND outcome NOT IN ('failed', 'cancelled', 'abandoned')
            THEN 'error belongs to failed, cancelled or abandoned'
        WHEN detail ? 'delay' AND outcome NOT IN ('failed', 'snoozed') THEN 'delay belongs to failed or snoozed'
        WHEN detail ? 'final' AND outcome <> 'failed' THEN 'final belongs to failed'
        WHEN jsonb_typeof(detail -> 'final') NOT IN ('boolean', 'null') THEN 'final is not a boolean'
        WHEN jsonb_typeof(detail -> 'error') NOT IN ('object', 'null') THEN 'error is not an object'
        WHEN jsonb_typeof(detail -> 'error') = 'object'
            AND (detail -> 'error') - ARRAY['class', 'message', 'backtrace'] <> '{}' THEN 'error has an unknown field'
        WHEN jsonb_typeof(detail #> '{error,class}') NOT IN ('string', 'null')
            OR jsonb_typeof(detail #> '{error,message}') NOT IN ('string', 'null')
            OR jsonb_typeof(detail #> '{error,backtrace}') NOT IN ('string', 'null')
            THEN 'a field of error is not a string'
        WHEN outcome = 'snoozed' AND coalesce(jsonb_typeof(detail -> 'delay'), 'null') = 'null'
            THEN 'snoozed needs a delay'
        WHEN detail ? 'delay' THEN "{schema}".delay_problem(detail -> 'delay')
    END;
END
$$;

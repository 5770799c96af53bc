-- Says of most valid job documents that they are valid, without looking far: true for a document of common fields that are
-- what they must be. Of any other it takes document_problem to tell.
-- Called by: check_jobs, enqueue. Locks: none. Indexes: none.
-- A single expression, which the planner puts in place of the call: every expression in here is paid per document. It must
-- never be true where document_problem finds something. In jsonb's order every number lies between the strings and the booleans.
CREATE OR REPLACE FUNCTION "{schema}".obviously_valid(job jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN jsonb_typeof(job) = 'object' THEN
        octet_length((job -> 'payload')::text) <= 1048576
        AND jsonb_typeof(job -> 'actor') = 'string' AND octet_length(job ->> 'actor') BETWEEN 1 AND 255
        AND (job ->> 'actor') COLLATE "C" !~ '[\x01-\x1f\x7f]'
        AND (NOT job ? 'queue' OR jsonb_typeof(job -> 'queue') = 'string' AND octet_length(job ->> 'queue') BETWEEN 1 AND 255
            AND (job ->> 'queue') COLLATE "C" !~ '[\x01-\x1f\x7f]')
        AND (NOT job ? 'id' OR jsonb_typeof(job -> 'id') = 'string' AND job ->> 'id' LIKE '________-____-____-____-____________'
            AND (job ->> 'id') COLLATE "C" !~ '[^0-9a-f-]' AND job ->> 'id' NOT LIKE '%-%-%-%-%-%')
        AND (NOT job ? 'notify' OR job ->> 'notify' IN ('none', 'default') AND jsonb_typeof(job -> 'notify') = 'string')
        AND (job - '{id,queue,actor,payload,notify}'::text[] = '{}'
            OR job - '{id,queue,actor,payload,payload_version,priority,max_attempts,notify}'::text[] = '{}'
            AND (NOT job ? 'payload_version' OR job -> 'payload_version' BETWEEN '1' AND '2147483647'
                AND strpos(job ->> 'payload_version', '.') = 0)
            AND (NOT job ? 'priority' OR job -> 'priority' BETWEEN '-32768' AND '32767' AND strpos(job ->> 'priority', '.') = 0)
            AND (NOT job ? 'max_attempts' OR job -> 'max_attempts' BETWEEN '1' AND '32767'
                AND strpos(job ->> 'max_attempts', '.') = 0))
    END
$$;

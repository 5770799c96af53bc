-- Says what is wrong with a name or key, or NULL: 1 to 255 bytes without control characters.
-- Called by: document_problem, obviously_valid, register_worker, check_lane_part. Locks: none. Indexes: none.
-- The planner puts it in place of the call, which it would not if a function in here were not immutable, as format is not.
CREATE OR REPLACE FUNCTION "{schema}".name_problem(what text, name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN name IS NULL THEN what || ' is null'
        WHEN name = '' THEN what || ' is empty'
        WHEN pg_catalog.octet_length(name) > 255
            THEN what || ' has ' || pg_catalog.octet_length(name)::text || ' bytes, more than 255'
        WHEN name COLLATE "C" ~ '[\x01-\x1f\x7f]' THEN what || ' contains a control character'
    END
$$;

-- Says what is wrong with a name or key, or NULL: 1 to 255 bytes without control characters.
-- Called by: enqueue_many, register_worker. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".name_problem(what text, name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN name IS NULL THEN what || ' is null'
        WHEN name = '' THEN what || ' is empty'
        WHEN pg_catalog.octet_length(name) > 255
            THEN pg_catalog.format('%s has %s bytes, more than 255', what, pg_catalog.octet_length(name))
        WHEN name COLLATE "C" ~ '[\x01-\x1f\x7f]' THEN what || ' contains a control character'
    END
$$;

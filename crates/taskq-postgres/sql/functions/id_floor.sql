-- The least version 7 UUID of a time, but for its version.
-- Called by: enqueue_many, archived_staged: an id from within half a minute of now was made just now, and no
-- job is archived that soon. Locks: none. Indexes: none.
-- A single expression, which the planner puts in place of the call.
CREATE OR REPLACE FUNCTION "{schema}".id_floor(at timestamptz) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT pg_catalog.rpad(pg_catalog.lpad(pg_catalog.to_hex(pg_catalog.trunc(extract(epoch FROM at) * 1000)::bigint), 12, '0'), 32, '0')::uuid
$$;

-- Makes a version 7 UUID for a time; ids of one call grow with `nth`.
-- Called by: enqueue_many, for jobs without an id. Locks: none. Indexes: none.
-- 48 bits of milliseconds, 12 bits of the millisecond's fraction, 62 random bits. `nth` counts on from the
-- fraction and carries into the milliseconds, so the ids of one call are distinct and in order.
-- A single expression, which the planner puts in place of the call. PostgreSQL reads a UUID also without its hyphens.
CREATE OR REPLACE FUNCTION "{schema}".make_id(at timestamptz, nth bigint) RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT (pg_catalog.overlay(
            pg_catalog.lpad(pg_catalog.to_hex(pg_catalog.trunc(extract(epoch FROM at) * 4096000)::bigint + nth), 15, '0'),
            '7', 13, 0)
        || pg_catalog.substr(pg_catalog.gen_random_uuid()::text, 20))::uuid
$$;

-- Makes a version 7 UUID for a time, with its random bits from a seed; ids of one call grow with `nth`.
-- Called by: make_id; enqueue_many, with one random seed for all jobs without an id, since to ask the operating system for
-- each costs more than all the rest. Locks: none. Indexes: none.
-- 48 bits of milliseconds, 12 bits of the millisecond's fraction, 62 bits from the seed. `nth` counts on from the
-- fraction and carries into the milliseconds, so the ids of one call are distinct and in order.
-- A single expression, which the planner puts in place of the call. PostgreSQL reads a UUID also without its hyphens.
CREATE OR REPLACE FUNCTION "{schema}".seeded_id(at timestamptz, nth bigint, seed uuid) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT (pg_catalog.overlay(
            pg_catalog.lpad(pg_catalog.to_hex(pg_catalog.trunc(extract(epoch FROM at) * 4096000)::bigint + nth), 15, '0'),
            '7', 13, 0)
        || pg_catalog.to_hex(
            pg_catalog.uuid_hash_extended(seed, nth) & 4611686018427387903 | '-9223372036854775808'::bigint))::uuid
$$;

-- Makes a version 7 UUID for a time; ids of one call grow with `nth`.
-- Called by: enqueue_many, for jobs without an id. Locks: none. Indexes: none.
-- 48 bits of milliseconds, 12 bits of the millisecond's fraction, 62 random bits. `nth` counts on from the
-- fraction and carries into the milliseconds, so the ids of one call are distinct and in order.
CREATE OR REPLACE FUNCTION "{schema}".make_id(at timestamptz, nth bigint) RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT (pg_catalog.substr(stamp.hex, 2, 8) || '-' || pg_catalog.substr(stamp.hex, 10, 4)
        || '-7' || pg_catalog.substr(stamp.hex, 14, 3)
        || pg_catalog.substr(pg_catalog.gen_random_uuid()::text, 19))::uuid
    FROM (
        SELECT pg_catalog.lpad(pg_catalog.to_hex(
            pg_catalog.trunc(extract(epoch FROM at) * 4096000)::bigint + nth), 16, '0') AS hex
    ) stamp
$$;

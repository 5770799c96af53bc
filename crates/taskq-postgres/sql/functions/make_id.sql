-- Makes a version 7 UUID for a time; ids of one call grow with `nth`.
-- Called by: enqueue. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".make_id(at timestamptz, nth bigint) RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT "{schema}".seeded_id(at, nth, pg_catalog.gen_random_uuid()) $$;

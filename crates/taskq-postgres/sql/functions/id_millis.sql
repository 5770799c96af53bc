-- The time of a version 7 UUID, in milliseconds since 1970; of any other id some number.
-- Called by: enqueue_plain: an id from within half a minute of now was made just now, and no job is archived that soon.
-- Locks: none. Indexes: none.
-- A single expression, which the planner puts in place of the call.
CREATE OR REPLACE FUNCTION "{schema}".id_millis(id uuid) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT ('x' || pg_catalog.left(id::text, 8) || pg_catalog.substr(id::text, 10, 4))::bit(48)::bigint $$;

-- The time now: what is stored. Read once a call, into a variable.
-- Called by: every function that stores a time. Locks: none. Indexes: none.
-- Tests replace it to move time.
CREATE OR REPLACE FUNCTION "{schema}".clock_now() RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$ SELECT pg_catalog.clock_timestamp() $$;

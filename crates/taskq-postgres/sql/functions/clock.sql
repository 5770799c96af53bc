-- The time of the running statement: what predicates compare with.
-- Called by: every function that selects by time. Locks: none. Indexes: none.
-- STABLE, so an index condition can use it. Tests replace it to move time.
CREATE OR REPLACE FUNCTION "{schema}".clock() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT pg_catalog.statement_timestamp() $$;

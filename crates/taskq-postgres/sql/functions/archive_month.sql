-- The month of a time, by UTC: how the archive is partitioned.
-- Called by: sweep_archive, expire_archive, make_archive_month. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".archive_month(at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT pg_catalog.date_trunc('month', at, 'UTC') $$;

-- When a month of the archive is dropped that is kept for `keep` after it is over.
-- Called by: sweep_head, sweep_backlog, expire_archive. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".archive_expiry(month timestamptz, keep interval) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC' + keep $$;

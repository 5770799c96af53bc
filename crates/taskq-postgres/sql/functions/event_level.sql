-- The level at which events are written: off, notable, ends (those, and every end of a job) or all. The setting `event_level`, default notable.
-- Called by: enqueue_many, claim_group, settle, release_worker, hold_hook. Locks: none. Indexes: settings_pkey.
CREATE OR REPLACE FUNCTION "{schema}".event_level() RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT coalesce((SELECT s.value #>> '{}' FROM "{schema}".settings s WHERE s.name = 'event_level'), 'notable')
$$;

-- Makes the session's table of jobs for enqueue_staged, unless it is there; it is emptied at every commit.
-- Called by: clients, once per connection, and after a rollback, to empty it. Locks: none that others meet. Indexes: none.
-- A session that may not make temporary tables gets PostgreSQL's own error (42501), and enqueues by enqueue_many.
CREATE OR REPLACE FUNCTION "{schema}".prepare_staging() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET client_min_messages = warning
AS $$
BEGIN
    CREATE TEMPORARY TABLE IF NOT EXISTS "{schema}_staged" (
        -- the job's place in the call: 1, 2, …
        nth               integer NOT NULL,
        id                uuid NOT NULL,
        -- as in a document; null where one would not have the field
        queue             text COLLATE "C",
        actor             text COLLATE "C",
        payload           jsonb,
        payload_version   integer,
        priority          smallint,
        max_attempts      smallint,
        notify            text COLLATE "C",
        scheduled_at      timestamptz,
        delay             interval,
        schedule_to_close timestamptz,
        start_to_close    interval,
        retry_policy      jsonb,
        trace_context     text COLLATE "C",
        metadata          jsonb,
        tags              text[] COLLATE "C",
        fairness_key      text COLLATE "C",
        keep              text COLLATE "C"
    ) ON COMMIT DELETE ROWS;
END
$$;

-- Makes the session's table of jobs for enqueue_staged, unless it is there; it is emptied at every commit.
-- Called by: clients, once per connection, and after a rollback, to empty it. Locks: none that others meet. Indexes: none.
-- Where the schema's owner may not make temporary tables, PostgreSQL's own error (42501) comes, and clients enqueue by
-- enqueue_many. The table is the owner's, so that nobody can put another in its place; sessions may only write into it, and
-- each sees its own.
CREATE OR REPLACE FUNCTION "{schema}".prepare_staging() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
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
    IF NOT has_table_privilege('public', 'pg_temp."{schema}_staged"', 'INSERT') THEN
        GRANT INSERT ON pg_temp."{schema}_staged" TO PUBLIC;
    END IF;
END
$$;

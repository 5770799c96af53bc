-- Asks the leader to stamp finished jobs anew, from the first one on: a hot period has changed.
-- Called by: set_setting, set_actor. Locks: the row of restamp, which a batch of the leader may hold. Indexes: restamp_pkey.
CREATE OR REPLACE FUNCTION "{schema}".request_restamp() RETURNS void
LANGUAGE sql VOLATILE
AS $$
    INSERT INTO "{schema}".restamp AS r (requested_at) VALUES ("{schema}".clock_now())
    ON CONFLICT ON CONSTRAINT restamp_pkey DO UPDATE SET requested_at = excluded.requested_at, reached_at = NULL, reached_id = NULL
$$;

-- Inserts one job of common fields, without a document: says `created`, or the status of the job that has the id. `wakes`
-- says whether those who wait for jobs are told.
-- Called by: clients that enqueue one job at a time. Locks: the inserted row. Indexes: jobs_pkey, settings_pkey.
-- One statement: what else there is to find, that the job is refused or its id taken, is found by enqueue_many; an id that
-- was not made just now may be that of an archived job.
CREATE OR REPLACE FUNCTION "{schema}".enqueue_plain(
    id uuid, queue text, actor text, payload jsonb, payload_version integer, priority smallint, max_attempts smallint,
    wakes boolean)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    now timestamptz := "{schema}".clock_now();
    -- As event_level says it, without a call of its own.
    tells_all boolean;
BEGIN
    INSERT INTO "{schema}".jobs AS j (
        id, created_at, priority, max_attempts, payload_version, scheduled_at, status, queue, actor, payload)
    SELECT id, now, priority, max_attempts, payload_version, now, 'pending', queue, actor, payload
    WHERE id IS NOT NULL AND priority IS NOT NULL AND max_attempts >= 1 AND payload_version >= 1
        AND octet_length(queue) BETWEEN 1 AND 255 AND queue COLLATE "C" !~ '[\x01-\x1f\x7f]'
        AND octet_length(actor) BETWEEN 1 AND 255 AND actor COLLATE "C" !~ '[\x01-\x1f\x7f]'
        AND octet_length(payload::text) <= 1048576
        AND abs("{schema}".id_millis(id) - (date_part('epoch', now) * 1000)::bigint) <= 30000
    ON CONFLICT ON CONSTRAINT jobs_pkey DO NOTHING
    RETURNING (SELECT s.value = '"all"' FROM "{schema}".settings s WHERE s.name = 'event_level') INTO tells_all;
    IF FOUND THEN
        IF wakes THEN
            PERFORM pg_notify('{schema}:ready', queue);
        END IF;
        IF tells_all THEN
            INSERT INTO "{schema}".job_events (job_id, occurred_at, kind) VALUES (id, now, 'enqueued');
        END IF;
        RETURN 'created';
    END IF;
    IF id IS NULL THEN
        PERFORM "{schema}".refuse('id is null');
    END IF;
    RETURN (
        SELECT CASE e.outcome WHEN 'created' THEN e.outcome ELSE e.status END
        FROM "{schema}".enqueue_many(jsonb_build_array(jsonb_build_object(
            'id', id, 'queue', queue, 'actor', actor, 'payload_version', payload_version, 'priority', priority,
            'max_attempts', max_attempts, 'notify', CASE WHEN wakes THEN 'default' ELSE 'none' END)
            || CASE WHEN payload IS NULL THEN '{}' ELSE jsonb_build_object('payload', payload) END)) e
    );
END
$$;

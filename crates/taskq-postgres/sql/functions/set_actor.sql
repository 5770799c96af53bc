-- Sets what is particular to an actor: `changes` is an object with any of `hot_period`, how long a job of its that succeeded or
-- was cancelled stays among the others before it is archived, and `failed_hot_period`, how long one that failed, crashed or
-- was abandoned does: intervals of at least "1 minute"; null is as the settings say. Returns whether anything was another
-- before. The actor need not have jobs yet.
-- Called by: operators. Locks: the row, that of restamp. Indexes: actor_config_pkey, restamp_pkey.
-- Of jobs that had finished before, the leader makes the stamps anew, in batches.
CREATE OR REPLACE FUNCTION "{schema}".set_actor(name text, changes jsonb) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock_now();
    field text;
    problem text;
BEGIN
    PERFORM "{schema}".check_lane_part('actor', name);
    IF changes IS NULL OR jsonb_typeof(changes) <> 'object' THEN
        PERFORM "{schema}".refuse('the changes are not a JSON object');
    END IF;
    FOR field IN SELECT k FROM jsonb_object_keys(changes) k LOOP
        IF field NOT IN ('hot_period', 'failed_hot_period') THEN
            PERFORM "{schema}".refuse(format('the changes have the unknown field "%s"', left(field, 255)));
        ELSIF changes -> field <> 'null' THEN
            problem := "{schema}".setting_problem(field, changes -> field);
            IF problem IS NOT NULL THEN
                PERFORM "{schema}".refuse(format('%s: %s', field, problem));
            END IF;
        END IF;
    END LOOP;
    INSERT INTO "{schema}".actor_config (actor, updated_at) VALUES (name, now) ON CONFLICT ON CONSTRAINT actor_config_pkey DO NOTHING;
    UPDATE "{schema}".actor_config a
    SET hot_period = c.hot_period, failed_hot_period = c.failed_hot_period, updated_at = now
    FROM (
        SELECT CASE WHEN changes ? 'hot_period' THEN (changes ->> 'hot_period')::interval ELSE b.hot_period END AS hot_period,
            CASE WHEN changes ? 'failed_hot_period' THEN (changes ->> 'failed_hot_period')::interval
                ELSE b.failed_hot_period END AS failed_hot_period
        FROM "{schema}".actor_config b WHERE b.actor = name
    ) c
    WHERE a.actor = name AND (a.hot_period, a.failed_hot_period) IS DISTINCT FROM (c.hot_period, c.failed_hot_period);
    IF FOUND THEN
        PERFORM "{schema}".request_restamp();
        RETURN true;
    END IF;
    RETURN false;
END
$$;

-- Drops the oldest month of the archive that is over for longer than `archive_retention_period`, and makes the partitions of
-- this month and the next. Returns how many months were dropped, whether there may be more; they have no place to go on from.
-- What cannot be dropped or made is counted among the problems, and tried again by a later call.
-- Called by: the leader. Locks: the leader's row FOR KEY SHARE; the archive's tables ACCESS EXCLUSIVE for as long as it
-- takes to drop one month, given up after 100 ms: who reads the archive waits no longer than that, and nobody else does.
-- Indexes: settings_pkey, those of the catalog pg_inherits.
-- One month a call, so that the lock is short.
CREATE OR REPLACE FUNCTION "{schema}".expire_archive(leader uuid, leader_epoch bigint, max_rows integer)
RETURNS TABLE (swept bigint, more boolean, due_in interval, reached_at timestamptz, reached_id uuid, problems bigint, problem text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms'
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    now timestamptz := "{schema}".clock();
    keep interval;
    month timestamptz;
    months timestamptz[];
    whole timestamptz[];
    suffix text;
    part text;
    told text;
    dropped bigint := 0;
    failed bigint := 0;
    is_more boolean := false;
BEGIN
    PERFORM "{schema}".require_read_committed('expire_archive');
    PERFORM "{schema}".check_max_rows(max_rows);
    PERFORM "{schema}".require_leader(leader, leader_epoch, false);
    SELECT array_agg(m.month ORDER BY m.month), array_agg(m.month) FILTER (WHERE m.is_whole) INTO months, whole
    FROM "{schema}".archive_months() m;
    FOREACH month IN ARRAY ARRAY["{schema}".archive_month(now), "{schema}".archive_expiry("{schema}".archive_month(now), '0')] LOOP
        IF month <> ALL (coalesce(whole, '{}')) THEN
            told := coalesce(told, "{schema}".make_archive_month(leader, leader_epoch, month));
            failed := failed + (told IS NOT NULL)::integer;
        END IF;
    END LOOP;
    keep := "{schema}".interval_setting('archive_retention_period', '365 days');
    IF keep > interval '0' THEN
        FOREACH month IN ARRAY coalesce(months, '{}') LOOP
            EXIT WHEN "{schema}".archive_expiry(month, keep) > now;
            IF dropped = 1 THEN
                is_more := true;
                EXIT;
            END IF;
            PERFORM "{schema}".require_leader(leader, leader_epoch, true);
            suffix := to_char(month AT TIME ZONE 'UTC', '_YYYY_MM');
            BEGIN
                -- A table that is no partition any more is somebody's own.
                FOR part IN
                    SELECT i.inhrelid::regclass::text FROM pg_inherits i
                    WHERE i.inhparent IN ('"{schema}".jobs_archive'::regclass, '"{schema}".job_attempts_archive'::regclass)
                        AND i.inhrelid::regclass::text ~ (suffix || '"?$')
                LOOP
                    EXECUTE format('DROP TABLE %s', part);
                END LOOP;
                dropped := 1;
            EXCEPTION WHEN lock_not_available THEN
                failed := failed + 1;
                told := coalesce(told, format('%s is in use and is dropped later', part));
                EXIT;
            WHEN OTHERS THEN
                failed := failed + 1;
                told := coalesce(told, format('%s cannot be dropped: %s (SQLSTATE %s)', part, SQLERRM, SQLSTATE));
            END;
        END LOOP;
    END IF;
    RETURN QUERY SELECT dropped, is_more, NULL::interval, NULL::timestamptz, NULL::uuid, failed, told;
END
$$;

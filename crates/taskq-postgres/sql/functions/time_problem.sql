-- Says what is wrong with the times of one job document, or NULL.
-- Called by: document_problem, for documents that name a time. Locks: none. Indexes: none.
-- A cast is the only full check of a time or interval that every supported version has, so each runs under an
-- exception block; documents without times never come here.
CREATE OR REPLACE FUNCTION "{schema}".time_problem(job jsonb, now timestamptz) RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    field text;
    instant timestamptz;
    span interval;
    starts timestamptz := now;
BEGIN
    FOREACH field IN ARRAY ARRAY['scheduled_at', 'schedule_to_close', 'delay', 'start_to_close'] LOOP
        CONTINUE WHEN coalesce(jsonb_typeof(job -> field), 'null') = 'null';
        BEGIN
            IF field IN ('scheduled_at', 'schedule_to_close') THEN
                IF job ->> field !~ '^\s*[+-]?\d{4,6}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?\s*(Z|z|[+-]\d\d(:?\d\d(:?\d\d)?)?)\s*$' THEN
                    RETURN format('%s is not an ISO 8601 time with a zone', field);
                END IF;
                instant := (job ->> field)::timestamptz;
                IF NOT isfinite(instant) OR instant < '0001-01-01 00:00:00+00' OR instant >= '10000-01-01 00:00:00+00' THEN
                    RETURN field || ' is not between the years 1 and 9999';
                END IF;
            ELSE
                span := (job ->> field)::interval;
                IF span > interval '36600 days' OR span < interval '-36600 days' THEN
                    RETURN field || ' is longer than 36600 days';
                END IF;
            END IF;
        EXCEPTION WHEN data_exception THEN
            RETURN format('%s is not a valid %s', field,
                CASE WHEN field IN ('scheduled_at', 'schedule_to_close') THEN 'time' ELSE 'interval' END);
        END;
        CASE field
            WHEN 'scheduled_at' THEN
                starts := instant;
            WHEN 'delay' THEN
                IF span < interval '0' THEN
                    RETURN 'delay is negative';
                END IF;
                IF job ->> 'scheduled_at' IS NOT NULL THEN
                    RETURN 'delay and scheduled_at exclude each other';
                END IF;
                starts := now + span;
            WHEN 'start_to_close' THEN
                IF span <= interval '0' THEN
                    RETURN 'start_to_close is not positive';
                END IF;
            ELSE
                NULL;
        END CASE;
    END LOOP;
    IF job ->> 'schedule_to_close' IS NOT NULL AND (job ->> 'schedule_to_close')::timestamptz <= starts THEN
        RETURN 'schedule_to_close is not after the scheduled time';
    END IF;
    RETURN NULL;
END
$$;

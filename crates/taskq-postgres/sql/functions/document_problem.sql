-- Says why a job document cannot be enqueued, and the error code; a null problem when it can.
-- Called by: check_jobs, check_staged, for jobs that are not obviously valid. Locks: none. Indexes: queues_pkey.
-- The one place where a job is validated. A loop over the fields with one expression each, and no statement that would have
-- to be planned; only documents with times or a retry policy take the slower checks.
CREATE OR REPLACE FUNCTION "{schema}".document_problem(job jsonb, now timestamptz, OUT problem text, OUT code text)
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    field text;
    value jsonb;
    kind text := jsonb_typeof(job);
BEGIN
    code := 'TQ002';
    problem := CASE
        WHEN kind <> 'object' THEN format('a JSON %s, not an object', kind)
        WHEN coalesce(jsonb_typeof(job -> 'actor'), 'null') = 'null' THEN 'actor is missing'
        WHEN NOT job ? 'payload' THEN 'payload is missing'
    END;
    IF problem IS NOT NULL THEN
        RETURN;
    END IF;
    FOR field, value IN SELECT e.key, e.value FROM jsonb_each(job) e LOOP
        kind := jsonb_typeof(value);
        problem := CASE
            WHEN field = 'payload' THEN CASE
                WHEN "{schema}".json_bytes(value, 1048576) > 1048576
                    THEN format('payload has %s bytes, more than 1048576', "{schema}".json_bytes(value, 1048576)) END
            WHEN field IN ('queue', 'actor', 'identity_key', 'fairness_key', 'unique_key', 'idempotency_key', 'trace_context')
                THEN CASE
                    WHEN kind = 'null' THEN NULL
                    WHEN kind <> 'string' THEN format('%s is a JSON %s, not a string', field, kind)
                    ELSE "{schema}".name_problem(field, value #>> '{}') END
            WHEN field IN ('id', 'scheduled_at', 'delay', 'schedule_to_close', 'start_to_close', 'keep', 'notify', 'on_finished')
                THEN CASE
                    WHEN kind = 'null' THEN NULL
                    WHEN kind <> 'string' THEN format('%s is a JSON %s, not a string', field, kind)
                    WHEN field = 'id' AND value #>> '{}' !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
                        THEN 'id is not a UUID'
                    WHEN field = 'notify' AND value #>> '{}' NOT IN ('default', 'none')
                        THEN 'notify is neither "default" nor "none"'
                    WHEN field = 'on_finished' AND value #>> '{}' NOT IN ('return', 'run_again')
                        THEN 'on_finished is neither "return" nor "run_again"'
                    WHEN field = 'keep' AND value #>> '{}' NOT IN ('all', 'none') THEN 'keep is neither "all" nor "none"' END
            WHEN field IN ('priority', 'max_attempts', 'payload_version') THEN CASE
                WHEN kind = 'null' THEN NULL
                WHEN kind <> 'number' THEN format('%s is a JSON %s, not a number', field, kind)
                WHEN value::numeric <> trunc(value::numeric) THEN field || ' is not a whole number'
                WHEN field = 'priority' AND value::numeric NOT BETWEEN -32768 AND 32767
                    THEN 'priority is not between -32768 and 32767'
                WHEN field = 'max_attempts' AND value::numeric NOT BETWEEN 1 AND 32767
                    THEN 'max_attempts is not between 1 and 32767'
                WHEN field = 'payload_version' AND value::numeric NOT BETWEEN 1 AND 2147483647
                    THEN 'payload_version is not between 1 and 2147483647' END
            WHEN field = 'metadata' THEN CASE
                WHEN kind = 'null' THEN NULL
                WHEN kind <> 'object' THEN format('metadata is a JSON %s, not an object', kind)
                WHEN "{schema}".json_bytes(value, 65536) > 65536
                    THEN format('metadata has %s bytes, more than 65536', "{schema}".json_bytes(value, 65536)) END
            WHEN field = 'tags' THEN CASE
                WHEN kind <> 'null' THEN "{schema}".tags_problem(value) END
            WHEN field = 'retry_policy' THEN CASE
                WHEN kind <> 'null' THEN "{schema}".retry_policy_problem(value) END
            ELSE format('unknown field "%s"', left(field, 255))
        END;
        IF problem IS NULL AND kind <> 'null' THEN
            IF field = 'fairness_key' THEN
                -- A queue in strict order has no turns, so the key would silently do nothing.
                problem := "{schema}".fairness_problem(coalesce(job ->> 'queue', 'default'));
            ELSIF field = 'on_finished' AND coalesce(jsonb_typeof(job -> 'idempotency_key'), 'null') = 'null' THEN
                problem := 'on_finished needs an idempotency_key';
            ELSIF field IN ('identity_key', 'unique_key') THEN
                problem := field || ' is not supported by this version';
                code := 'TQ003';
            END IF;
        END IF;
        IF problem IS NOT NULL THEN
            RETURN;
        END IF;
    END LOOP;
    IF job ?| '{scheduled_at,delay,schedule_to_close,start_to_close}' THEN
        problem := "{schema}".time_problem(job, now);
    END IF;
END
$$;

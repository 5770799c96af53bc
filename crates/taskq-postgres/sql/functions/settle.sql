-- Records what became of attempts: one row per outcome, in their order. `reason` is applied; repeated (this
-- attempt had recorded this outcome already); stale (the fence (id, epoch, worker) does not hold, or the
-- worker's lease has ended); gone (no such job). Only applied changes anything, and only it is accepted.
-- A job whose cancellation was asked for ends cancelled instead of being tried again.
-- Called by: workers in any language. Locks and indexes: see settle_succeeded and
-- settle_each.
CREATE OR REPLACE FUNCTION "{schema}".settle(worker uuid, outcomes jsonb)
RETURNS TABLE (id uuid, accepted boolean, reason text, status text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    bad record;
    plain boolean;
    nths bigint[];
    ids uuid[];
    epochs bigint[];
    words text[];
    details jsonb[];
BEGIN
    PERFORM "{schema}".require_read_committed('settle');
    IF worker IS NULL THEN
        PERFORM "{schema}".refuse('worker is null');
    ELSIF outcomes IS NULL OR jsonb_typeof(outcomes) <> 'array' THEN
        PERFORM "{schema}".refuse(format('outcomes is %s, not a JSON array', coalesce('a JSON ' || jsonb_typeof(outcomes), 'null')));
    END IF;
    -- A cheap look first: documents that say no more than they must and say it well need no search for faults.
    SELECT bool_and((CASE WHEN jsonb_typeof(d.doc) = 'object' THEN d.doc - ARRAY['id', 'epoch', 'outcome'] = '{}' END
        AND jsonb_typeof(d.doc -> 'id') = 'string' AND jsonb_typeof(d.doc -> 'epoch') = 'number'
        AND d.doc ->> 'id' ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
        AND d.doc ->> 'epoch' ~ '^[0-9]{1,18}$' AND d.doc ->> 'outcome' IN ('succeeded', 'cancelled', 'released')) IS TRUE)
    INTO plain
    FROM jsonb_array_elements(outcomes) d(doc);
    IF plain IS NOT TRUE THEN
        SELECT p.element, p.problem INTO bad FROM "{schema}".outcome_problem(outcomes) p;
        IF bad.problem IS NOT NULL THEN
            PERFORM "{schema}".refuse(bad.problem, bad.element);
        END IF;
    END IF;
    SELECT array_agg(o.nth), array_agg(o.id), array_agg(o.epoch), array_agg(o.outcome), array_agg(o.detail)
    INTO nths, ids, epochs, words, details
    FROM (
        SELECT d.nth, (d.doc ->> 'id')::uuid AS id, (d.doc -> 'epoch')::bigint AS epoch, d.doc ->> 'outcome' AS outcome,
            CASE WHEN NOT plain THEN nullif(d.doc - ARRAY['id', 'epoch', 'outcome'], '{}') END AS detail
        FROM jsonb_array_elements(outcomes) WITH ORDINALITY d(doc, nth)
        -- The order in which they are locked.
        ORDER BY 2, 1
    ) o;
    IF ids IS NULL THEN
        RETURN;
    ELSIF plain THEN
        details := NULL;
    END IF;
    IF 'succeeded' = ALL (words) THEN
        IF "{schema}".settle_succeeded(worker, ids, epochs, details) THEN
            RETURN QUERY
                SELECT (d.doc ->> 'id')::uuid, true, 'applied'::text, 'succeeded'::text
                FROM jsonb_array_elements(outcomes) d(doc);
            RETURN;
        END IF;
    END IF;
    RETURN QUERY
        SELECT s.id, s.accepted, s.reason, s.status
        FROM ROWS FROM ("{schema}".settle_each(worker, ids, epochs, words, details), unnest(nths))
            s(id, accepted, reason, status, nth)
        ORDER BY s.nth;
END
$$;

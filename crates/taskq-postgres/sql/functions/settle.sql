-- Records what became of attempts: one row per outcome, in their order. `reason` is applied; repeated (this
-- attempt had recorded this outcome already); stale (the fence (id, epoch, worker) does not hold, or the
-- worker's lease has ended); gone (no such job). Only applied changes anything, and only it is accepted.
-- A job whose cancellation was asked for ends cancelled instead of being tried again.
-- Called by: workers in any language. Locks and indexes: see settle_batch.
CREATE OR REPLACE FUNCTION "{schema}".settle(worker uuid, outcomes jsonb)
RETURNS TABLE (id uuid, accepted boolean, reason text, status text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
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
    others bigint[];
    reasons text[];
    statuses text[];
    answers text[];
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM "{schema}".require_read_committed('settle');
    END IF;
    IF worker IS NULL THEN
        PERFORM "{schema}".refuse('worker is null');
    ELSIF outcomes IS NULL OR jsonb_typeof(outcomes) <> 'array' THEN
        PERFORM "{schema}".refuse(format('outcomes is %s, not a JSON array', coalesce('a JSON ' || jsonb_typeof(outcomes), 'null')));
    END IF;
    -- One look at the whole text first, in which a document's keys have one order: documents that say no more than they
    -- must, and say it well, need no search for faults.
    plain := outcomes::text ~ ('^[[](?:[{]"id": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", '
        '"epoch": [0-9]{1,18}, "outcome": "(?:succeeded|cancelled|released)"[}](?:, )?)+]$');
    IF NOT plain THEN
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
    END IF;
    SELECT b.others, b.reasons, b.statuses INTO others, reasons, statuses
    FROM "{schema}".settle_batch(worker, ids, epochs, words, CASE WHEN NOT plain THEN details END) b;
    IF others IS NULL THEN
        RETURN QUERY
            SELECT (d.doc ->> 'id')::uuid, true, 'applied'::text, d.doc ->> 'outcome'
            FROM jsonb_array_elements(outcomes) d(doc);
        RETURN;
    END IF;
    FOR i IN 1 .. cardinality(others) LOOP
        -- Its status takes the place of the word that it was given.
        words[others[i]] := statuses[i];
        answers[others[i]] := reasons[i];
    END LOOP;
    RETURN QUERY
        SELECT s.id, coalesce(s.reason, 'applied') = 'applied', coalesce(s.reason, 'applied'), s.status
        FROM unnest(nths, ids, words, answers) s(nth, id, status, reason)
        ORDER BY s.nth;
END
$$;

-- Records what became of attempts, as `settle` does, for arrays whose n-th elements belong together. A detail is the rest
-- of an outcome's document, without id, epoch and outcome; NULL when there is no more to say.
-- The answer is one row: how many were applied and ended as their outcome says; and of every other its position, counted
-- from 1, its reason, and the status of its job. So the answer to a thousand successes is a number.
-- Called by: the Rust worker. Locks and indexes: see settle_succeeded and settle_each. Ids in ascending order are the
-- fastest.
CREATE OR REPLACE FUNCTION "{schema}".settle_batch(
    worker uuid, ids uuid[], epochs bigint[], outcomes text[], details jsonb[],
    OUT applied bigint, OUT others bigint[], OUT reasons text[], OUT statuses text[]
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    bad record;
BEGIN
    -- Conditions without a query cost next to nothing; a call of what raises costs a statement.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM "{schema}".require_read_committed('settle');
    END IF;
    IF worker IS NULL THEN
        PERFORM "{schema}".refuse('worker is null');
    ELSIF ids IS NULL OR cardinality(epochs) IS DISTINCT FROM cardinality(ids)
        OR cardinality(outcomes) IS DISTINCT FROM cardinality(ids) OR cardinality(details) <> cardinality(ids) THEN
        PERFORM "{schema}".refuse('ids, epochs, outcomes and details differ in length');
    ELSIF array_position(ids, NULL) IS NOT NULL THEN
        PERFORM "{schema}".refuse('id is null', array_position(ids, NULL) - 1);
    ELSIF array_position(epochs, NULL) IS NOT NULL THEN
        PERFORM "{schema}".refuse('epoch is null', array_position(epochs, NULL) - 1);
    ELSIF details IS NOT NULL OR (outcomes <@ ARRAY['succeeded', 'cancelled', 'released']) IS NOT TRUE THEN
        SELECT d.nth - 1 AS element, p.problem INTO bad
        FROM unnest(outcomes, details) WITH ORDINALITY d(outcome, detail, nth)
        CROSS JOIN LATERAL (SELECT "{schema}".detail_problem(d.outcome, d.detail) AS problem) p
        WHERE p.problem IS NOT NULL
        LIMIT 1;
        IF bad.problem IS NOT NULL THEN
            PERFORM "{schema}".refuse(bad.problem, bad.element);
        END IF;
    END IF;
    IF 'succeeded' = ALL (outcomes) THEN
        IF "{schema}".settle_succeeded(worker, ids, epochs, details) THEN
            applied := cardinality(ids);
            RETURN;
        END IF;
    END IF;
    SELECT count(*) FILTER (WHERE s.plain), array_agg(s.nth) FILTER (WHERE NOT s.plain),
        array_agg(s.reason) FILTER (WHERE NOT s.plain), array_agg(s.status) FILTER (WHERE NOT s.plain)
    INTO applied, others, reasons, statuses
    FROM (
        SELECT e.*, (e.accepted AND e.status = outcomes[e.nth]) IS TRUE AS plain
        FROM "{schema}".settle_each(worker, ids, epochs, outcomes, details)
            WITH ORDINALITY e(id, accepted, reason, status, nth)
    ) s;
END
$$;

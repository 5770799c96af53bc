-- Records what became of attempts, as `settle` does, for arrays whose n-th elements belong together. A detail is the rest
-- of an outcome's document, without id, epoch and outcome; NULL when there is no more to say.
-- The answer is one row: how many were applied and ended as their outcome says; and of every other its position, counted
-- from 1, its reason, and the status of its job. So the answer to a thousand successes is a number.
-- Called by: the Rust worker, settle. Locks: the jobs, in the order of their ids. Indexes: jobs_pkey; see settle_succeeded
-- and settle_each. Successes without details are fastest with their ids in ascending order.
CREATE OR REPLACE FUNCTION "{schema}".settle_batch(
    worker uuid, ids uuid[], epochs bigint[], outcomes text[], details jsonb[],
    OUT applied bigint, OUT others bigint[], OUT reasons text[], OUT statuses text[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    bad record;
    won_ids uuid[];
    won_epochs bigint[];
    won_details jsonb[];
    with_results boolean;
    rest bigint[];
    jobs bigint;
    locked bigint;
    split boolean;
BEGIN
    applied := 0;
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
    ELSIF 'succeeded' = ANY (outcomes) THEN
        -- Locks everything, so that the two parts need not be locked in one order.
        SELECT array_agg(o.id) FILTER (WHERE o.won), array_agg(o.epoch) FILTER (WHERE o.won),
            array_agg(o.detail) FILTER (WHERE o.won), bool_or(o.won AND o.detail IS NOT NULL),
            array_agg(o.nth) FILTER (WHERE NOT o.won), count(DISTINCT o.id), count(l.tid)
        INTO won_ids, won_epochs, won_details, with_results, rest, jobs, locked
        FROM (
            SELECT u.nth, u.id, u.epoch, u.detail, u.outcome = 'succeeded' AS won
            FROM unnest(ids, epochs, outcomes, details) WITH ORDINALITY u(id, epoch, outcome, detail, nth)
            ORDER BY u.id
        ) o
        LEFT JOIN LATERAL (SELECT j.ctid AS tid FROM "{schema}".jobs j WHERE j.id = o.id FOR NO KEY UPDATE OF j) l ON true;
        -- Of several outcomes of one job the first counts, whatever it says.
        split := jobs = cardinality(ids) AND locked = jobs;
        IF split THEN
            split := "{schema}".settle_succeeded(worker, won_ids, won_epochs, CASE WHEN with_results THEN won_details END);
        END IF;
        IF split THEN
            applied := cardinality(won_ids);
            SELECT array_agg(ids[r.nth]), array_agg(epochs[r.nth]), array_agg(outcomes[r.nth]), array_agg(details[r.nth])
            INTO ids, epochs, outcomes, details
            FROM unnest(rest) r(nth);
        ELSE
            rest := NULL;
        END IF;
    END IF;
    SELECT applied + count(*) FILTER (WHERE s.plain), array_agg(coalesce(rest[s.nth], s.nth)) FILTER (WHERE NOT s.plain),
        array_agg(s.reason) FILTER (WHERE NOT s.plain), array_agg(s.status) FILTER (WHERE NOT s.plain)
    INTO applied, others, reasons, statuses
    FROM (
        SELECT e.*, (e.accepted AND e.status = outcomes[e.nth]) IS TRUE AS plain
        FROM "{schema}".settle_each(worker, ids, epochs, outcomes, details)
            WITH ORDINALITY e(id, accepted, reason, status, nth)
    ) s;
END
$$;

-- How every sweep stands: what its leader wrote down, how many rows wait for it (counting stops at 10,001) and how long the
-- oldest has waited. $1: the sweeps.
-- Called by: Store::sweeps. Locks: none.
-- Indexes: each sweep's own, behind the place that it had reached by its last note; sweeps_pkey, leader_pkey.
SELECT n.sweep, s.last_run_at, s.duration, coalesce(s.rows, 0) AS rows, coalesce(s.swept, 0) AS swept,
    "{schema}".sweep_backlog(n.sweep) AS backlog,
    coalesce(greatest("{schema}".clock() - h.due_at, interval '0'), interval '0') AS behind,
    s.batch, coalesce(h.problem, s.last_error) AS last_error,
    CASE WHEN h.problem IS NULL THEN s.last_error_at ELSE "{schema}".clock() END AS last_error_at, o.overrides
FROM unnest($1) WITH ORDINALITY n(sweep, nth)
LEFT JOIN LATERAL (SELECT s.* FROM "{schema}".sweeps s WHERE s.sweep = n.sweep) s ON true
-- What another leader's process had set says nothing of this one.
LEFT JOIN LATERAL (
    SELECT s.overrides FROM "{schema}".leader l WHERE l.only_row AND l.epoch = s.epoch
) o ON true
LEFT JOIN LATERAL "{schema}".sweep_head(pg_catalog.jsonb_build_object(
    'sweep', n.sweep, 'from', 'last_note', 'period', o.overrides ->> 'event_retention_period',
    'batch', o.overrides -> 'event_retention_batch_size')) h ON true
ORDER BY n.nth;

-- Events behind a place in their feed, in its order: transactions, and within one the events. Only those of transactions
-- that were over before the oldest one that still runs began, so that nothing can appear behind what was listed. Beside each:
-- where that ends; one row without an event when there is none. $1 and $2: behind this transaction and event; NULL lists
-- nothing, and a place that this server cannot have given is refused. $3: at most.
-- Called by: Store::events. Locks: none. Indexes: job_events_pkey.
SELECT h.horizon, e.xid::text, e.id, e.job_id, e.occurred_at, e.kind, e.detail
FROM (SELECT "{schema}".event_horizon($1::text) AS horizon OFFSET 0) h
LEFT JOIN LATERAL (
    SELECT v.xid, v.id, v.job_id, v.occurred_at, v.kind, v.detail
    FROM "{schema}".job_events v
    WHERE (v.xid, v.id) > ($1::text::xid8, $2)
        AND v.xid < h.horizon::xid8
    ORDER BY v.xid, v.id
    LIMIT $3
) e ON true
ORDER BY e.xid, e.id;

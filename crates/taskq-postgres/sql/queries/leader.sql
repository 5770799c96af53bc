-- The worker that holds the leader's lease, if it has not expired.
-- Called by: Store::stats, Store::leader. Indexes: leader_pkey. Locks: none.
SELECT l.worker, l.epoch, l.expires_at, greatest(l.expires_at - "{schema}".clock(), interval '0') AS lease_left
FROM "{schema}".leader l
WHERE l.only_row AND l.worker IS NOT NULL AND l.expires_at > "{schema}".clock();

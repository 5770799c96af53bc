-- The actors whose jobs are held back, by name.
-- Called by: Store::paused_actors. Locks: none. Indexes: none; the table holds only configured actors.
SELECT a.actor
FROM "{schema}".actor_config a
WHERE a.paused_at IS NOT NULL
ORDER BY a.actor COLLATE "C";

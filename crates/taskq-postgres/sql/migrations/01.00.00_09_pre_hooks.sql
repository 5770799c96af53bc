-- Who is told how jobs end, and how far.

-- One row per hook that was ever held, a few in all. Held by whoever follows the feed of events for it.
CREATE TABLE "{schema}".hooks (
    hook       text COLLATE "C" NOT NULL,
    -- Behind the last event that was dealt with.
    xid        xid8 NOT NULL,
    id         bigint NOT NULL,
    holder     uuid,
    held_until timestamptz,
    CONSTRAINT hooks_pkey PRIMARY KEY (hook)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0.02);

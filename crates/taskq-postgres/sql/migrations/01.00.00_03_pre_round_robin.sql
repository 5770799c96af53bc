-- Queues whose lanes take turns.

-- `cohorts` says that the queue is or was one, so that its jobs may have a cohort also while it is in strict order.
ALTER TABLE "{schema}".queues
    DROP CONSTRAINT queues_mode_check,
    ADD CONSTRAINT queues_mode_check CHECK (mode IN ('strict_fifo', 'round_robin')),
    ADD COLUMN cohorts boolean NOT NULL DEFAULT false;

-- Raises TQ005 unless this worker holds the leader's lease with this epoch.
-- Called by: the sweeps, inside their transaction. Locks: the leader's row FOR KEY SHARE when `lock` is set, so
-- that nobody takes over before the sweep has committed. Indexes: leader_pkey.
CREATE OR REPLACE FUNCTION "{schema}".require_leader(leader uuid, leader_epoch bigint, lock boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
BEGIN
    IF lock THEN
        PERFORM FROM "{schema}".leader s
        WHERE s.only_row AND s.worker = require_leader.leader AND s.epoch = leader_epoch AND s.expires_at > "{schema}".clock()
        FOR KEY SHARE;
    ELSE
        PERFORM FROM "{schema}".leader s
        WHERE s.only_row AND s.worker = require_leader.leader AND s.epoch = leader_epoch AND s.expires_at > "{schema}".clock();
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'TQ005', MESSAGE = format('worker %s does not lead with epoch %s',
            coalesce(require_leader.leader::text, 'null'), coalesce(leader_epoch::text, 'null'));
    END IF;
END
$$;

-- Ends an attempt as succeeded in the caller's own transaction, beside what it did there: both are committed or neither.
-- One row: `reason` is applied, repeated, stale or gone, as settle says it. The worker settles afterwards as ever and
-- meets `repeated` (or `gone`, where the job keeps nothing); after a rollback the job still runs.
-- Called by: handlers, on connections of their own. Locks: the job, until that transaction ends. Indexes: see settle_each.
--
-- Works at every isolation level: whoever holds the row's lock decides. Above READ COMMITTED it raises 40001 when the row
-- has changed since the transaction began, and sees the worker's lease as it was then.
CREATE OR REPLACE FUNCTION "{schema}".complete(worker uuid, job uuid, epoch bigint, result jsonb DEFAULT NULL)
RETURNS TABLE (id uuid, accepted boolean, reason text, status text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF worker IS NULL OR job IS NULL OR epoch IS NULL THEN
        PERFORM "{schema}".refuse('worker, job or epoch is null');
    ELSIF "{schema}".json_bytes(result, 1048576) > 1048576 THEN
        PERFORM "{schema}".refuse(format('result has %s bytes, more than 1048576', "{schema}".json_bytes(result, 1048576)));
    END IF;
    RETURN QUERY
        SELECT s.id, s.accepted, s.reason, s.status
        FROM "{schema}".settle_each(worker, ARRAY[job], ARRAY[epoch], ARRAY['succeeded'],
            CASE WHEN result IS NOT NULL THEN ARRAY[jsonb_build_object('result', result)] END) s;
END
$$;

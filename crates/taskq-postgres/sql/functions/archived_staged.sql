-- Whether the archive has a job of one of the ids that this session has staged.
-- Called by: enqueue_staged. Locks: none. Indexes: jobs_archive_pkey of every partition.
-- Of ids that were made just now no job is archived yet; of others one probe of each partition mostly answers for all.
CREATE OR REPLACE FUNCTION "{schema}".archived_staged(now timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
    fresh_from uuid := "{schema}".id_floor(now - interval '30 seconds');
    fresh_to uuid := "{schema}".id_floor(now + interval '30 seconds');
    least_id uuid;
    greatest_id uuid;
BEGIN
    SELECT (array_agg(s.id ORDER BY s.id))[1], (array_agg(s.id ORDER BY s.id DESC))[1] INTO least_id, greatest_id
    FROM pg_temp."{schema}_staged" s WHERE s.id NOT BETWEEN fresh_from AND fresh_to;
    IF least_id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM FROM "{schema}".jobs_archive a WHERE a.id BETWEEN least_id AND greatest_id LIMIT 1;
    RETURN FOUND AND EXISTS (
        SELECT FROM pg_temp."{schema}_staged" s
        CROSS JOIN LATERAL (SELECT FROM "{schema}".jobs_archive a WHERE a.id = s.id LIMIT 1) a
        WHERE s.id NOT BETWEEN fresh_from AND fresh_to
    );
END
$$;

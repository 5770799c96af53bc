-- Raises TQ002 unless a list of job ids is given, without nulls and of at most 10000.
-- Called by: cancel, retry. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".check_ids(ids uuid[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF ids IS NULL OR array_position(ids, NULL) IS NOT NULL THEN
        PERFORM "{schema}".refuse('an id is null');
    ELSIF cardinality(ids) > 10000 THEN
        PERFORM "{schema}".refuse(format('%s ids, more than 10000', cardinality(ids)));
    END IF;
END
$$;

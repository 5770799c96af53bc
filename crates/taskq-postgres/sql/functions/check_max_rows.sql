-- Raises TQ002 unless the bound of a batch lies between 1 and 100000.
-- Called by: the sweeps and the verbs that work in batches. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".check_max_rows(max_rows integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF coalesce(max_rows NOT BETWEEN 1 AND 100000, true) THEN
        PERFORM "{schema}".refuse('max_rows is not between 1 and 100000');
    END IF;
END
$$;

-- How many bytes a document has without white space, as far as that matters for `bound`: exactly near the bound, and at
-- least a lower limit elsewhere. PostgreSQL writes a space behind each comma and colon, which nobody supplied.
-- Called by: document_problem, outcome_problem, progress_problem. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".json_bytes(document jsonb, bound integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    content text := document::text;
    bytes integer := octet_length(content);
BEGIN
    -- Of a separator's two bytes one is the space, so no document shrinks below half.
    IF bytes <= bound OR bytes > 2 * bound THEN
        RETURN bytes;
    END IF;
    -- Strings are matched as a whole, so that what looks like a separator inside one stays.
    RETURN octet_length(regexp_replace(content, '("(?:[^"\\]|\\.)*")|([,:]) ', '\1\2', 'g'));
END
$$;

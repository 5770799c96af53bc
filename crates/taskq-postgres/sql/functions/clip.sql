-- Cuts a text to at most `bytes` bytes of UTF-8, at a character's boundary.
-- Called by: error_record. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".clip(content text, bytes integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    raw bytea;
    cut integer := bytes;
BEGIN
    IF pg_catalog.octet_length(content) <= bytes THEN
        RETURN content;
    END IF;
    raw := pg_catalog.convert_to(content, 'UTF8');
    -- Bytes 10xxxxxx continue a character.
    WHILE cut > 0 AND pg_catalog.get_byte(raw, cut) & 192 = 128 LOOP
        cut := cut - 1;
    END LOOP;
    RETURN pg_catalog.convert_from(pg_catalog.substr(raw, 1, cut), 'UTF8');
END
$$;

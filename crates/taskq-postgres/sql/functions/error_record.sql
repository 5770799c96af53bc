-- Makes the error that is stored of the error that was reported: class, message and backtrace, each cut to its
-- bound. Recording an outcome never fails because its text is long.
-- Called by: settle. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".error_record(reported jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE
AS $$
    SELECT pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
        'class', "{schema}".clip(coalesce(reported ->> 'class', 'error'), 255),
        'message', "{schema}".clip(coalesce(reported ->> 'message', ''), 65536),
        'backtrace', "{schema}".clip(reported ->> 'backtrace', 65536)))
$$;

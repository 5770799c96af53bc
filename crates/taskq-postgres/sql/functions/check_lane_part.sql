-- Raises TQ002 unless `kind` is queue or actor and `name` a valid name.
-- Called by: pause, resume. Locks: none. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".check_lane_part(kind text, name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    problem text;
BEGIN
    IF kind IS NULL OR kind NOT IN ('queue', 'actor') THEN
        PERFORM "{schema}".refuse('kind is neither "queue" nor "actor"');
    END IF;
    problem := "{schema}".name_problem(kind, name);
    IF problem IS NOT NULL THEN
        PERFORM "{schema}".refuse(problem);
    END IF;
END
$$;

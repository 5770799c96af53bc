-- Grants every role that was noted what its kind needs now. A role that is gone, or that grants do not bind any more, is
-- passed over; `taskq doctor` tells of it.
-- Called by: the migrator, whenever it has applied the functions. Locks: none of tables. Indexes: none; the table is small.
CREATE OR REPLACE FUNCTION "{schema}".renew_grants() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM "{schema}".grant_role(g.role, g.kind)
    FROM "{schema}".granted_roles g
    WHERE EXISTS (
        SELECT
        FROM pg_roles r
        CROSS JOIN pg_namespace n
        WHERE r.rolname = g.role AND n.nspname = '{schema}' AND NOT pg_has_role(r.oid, n.nspowner, 'MEMBER'));
END
$$;

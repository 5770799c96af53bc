-- Takes from a role whatever it was granted of this schema's own tables and functions, and the use of the schema.
-- Called by: grant_role, revoke_role. Locks: none of tables. Indexes: none.
CREATE OR REPLACE FUNCTION "{schema}".withdraw_grants(role text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    member oid := (SELECT r.oid FROM pg_roles r WHERE r.rolname = withdraw_grants.role);
    home oid := (SELECT n.oid FROM pg_namespace n WHERE n.nspname = '{schema}');
    object text;
BEGIN
    -- Named one by one, since others may keep tables and functions of theirs in the same schema.
    FOR object IN
        SELECT format('TABLE %I.%I', '{schema}', c.relname)
        FROM pg_class c
        JOIN "{schema}".rights() r ON r.object = 'table' AND r.name = c.relname
        WHERE c.relnamespace = home AND EXISTS (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = member)
        UNION ALL
        SELECT format('FUNCTION %I.%I(%s)', '{schema}', p.proname, pg_get_function_identity_arguments(p.oid))
        FROM pg_proc p
        JOIN "{schema}".rights() r ON r.object = 'function' AND r.name = p.proname
        WHERE p.pronamespace = home AND EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = member)
        UNION ALL
        SELECT format('SCHEMA %I', n.nspname)
        FROM pg_namespace n
        WHERE n.oid = home AND EXISTS (SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = member)
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %I', object, role);
    END LOOP;
END
$$;

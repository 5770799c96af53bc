-- Grants a role of the server what its kind needs, as `rights` lists it, and nothing else of this schema; notes it, so that
-- renew_grants can do so again. A role that had another kind before loses what that one had more.
-- `kind` is worker, enqueue-only, read-only or operator.
-- Called by: the schema's owner, as by `taskq migrate grant`; renew_grants. Locks: none of tables. Indexes: granted_roles_pkey.
CREATE OR REPLACE FUNCTION "{schema}".grant_role(role text, kind text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    owner oid;
    tables text;
    functions text;
BEGIN
    IF coalesce(grant_role.kind <> ALL ('{worker,enqueue-only,read-only,operator}'), true) THEN
        PERFORM "{schema}".refuse(format(
            'the kind of a role is %s, not worker, enqueue-only, read-only or operator', coalesce('"' || grant_role.kind || '"', 'null')));
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_role.role) THEN
        PERFORM "{schema}".refuse(format('there is no role "%s": create it first', grant_role.role));
    END IF;
    SELECT n.nspowner INTO owner FROM pg_namespace n WHERE n.nspname = '{schema}';
    -- A superuser is a member of every role.
    IF pg_has_role(grant_role.role, owner, 'MEMBER') THEN
        PERFORM "{schema}".refuse(format(
            'the role "%s" is a superuser or may act as the owner of the schema, so no grant says what it may do', grant_role.role));
    END IF;

    PERFORM "{schema}".withdraw_grants(grant_role.role);
    SELECT string_agg(format('%I.%I', '{schema}', r.name), ', ') INTO tables
    FROM "{schema}".rights() r
    WHERE r.object = 'table' AND grant_role.kind = ANY (r.kinds);
    SELECT string_agg(format('%I.%I(%s)', '{schema}', p.proname, pg_get_function_identity_arguments(p.oid)), ', ') INTO functions
    FROM "{schema}".rights() r
    JOIN pg_proc p ON p.proname = r.name AND p.pronamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = '{schema}')
    WHERE r.object = 'function' AND grant_role.kind = ANY (r.kinds);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', '{schema}', grant_role.role);
    EXECUTE format('GRANT SELECT ON TABLE %s TO %I', tables, grant_role.role);
    IF functions IS NOT NULL THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', functions, grant_role.role);
    END IF;
    INSERT INTO "{schema}".granted_roles AS g (role, kind) VALUES (grant_role.role, grant_role.kind)
    ON CONFLICT ON CONSTRAINT granted_roles_pkey DO UPDATE SET kind = excluded.kind WHERE g.kind <> excluded.kind;
END
$$;

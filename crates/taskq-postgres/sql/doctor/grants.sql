-- What roles lack of what their kinds need; what everybody may, which nobody should; and what is not its owner's: one row for
-- each. $1: the schema. $2, $3: the roles and their kinds. $4, $5, $6: the list of rights: object, name, kinds.
-- Called by: taskq doctor, `taskq migrate grants`. Locks: none. Reads the catalog only, so it needs no privilege itself.
WITH home AS (
    SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_catalog.pg_namespace n WHERE n.nspname = $1
), roles AS (
    SELECT r.role, r.kind, p.oid
    FROM unnest($2, $3) r(role, kind)
    JOIN pg_catalog.pg_roles p ON p.rolname = r.role
), rights AS (
    SELECT r.object, r.name, pg_catalog.string_to_array(r.kinds, ',') AS kinds FROM unnest($4, $5, $6) r(object, name, kinds)
), tables AS (
    SELECT c.oid, pg_catalog.format('TABLE %I.%I', h.nspname, c.relname) AS object, r.kinds, c.relowner AS owner, c.relacl AS acl
    FROM home h
    JOIN pg_catalog.pg_class c ON c.relnamespace = h.oid
    JOIN rights r ON r.object = 'table' AND r.name = c.relname
), functions AS (
    SELECT f.oid, r.kinds, f.proowner AS owner, coalesce(f.proacl, pg_catalog.acldefault('f', f.proowner)) AS acl,
        pg_catalog.format('FUNCTION %I.%I(%s)', h.nspname, f.proname, pg_catalog.pg_get_function_identity_arguments(f.oid)) AS object
    FROM home h
    JOIN pg_catalog.pg_proc f ON f.pronamespace = h.oid
    JOIN rights r ON r.object = 'function' AND r.name = f.proname
)
SELECT m.finding, m.role, m.privilege, m.object
FROM (
    SELECT 0 AS nth, 'lacks' AS finding, r.role, 'USAGE' AS privilege, pg_catalog.format('SCHEMA %I', h.nspname) AS object
    FROM roles r CROSS JOIN home h
    WHERE NOT pg_catalog.has_schema_privilege(r.oid, h.oid, 'USAGE')
    UNION ALL
    SELECT 1, 'lacks', r.role, 'SELECT', t.object
    FROM roles r JOIN tables t ON r.kind = ANY (t.kinds)
    WHERE NOT pg_catalog.has_table_privilege(r.oid, t.oid, 'SELECT')
    UNION ALL
    SELECT 2, 'lacks', r.role, 'EXECUTE', f.object
    FROM roles r JOIN functions f ON r.kind = ANY (f.kinds)
    WHERE NOT pg_catalog.has_function_privilege(r.oid, f.oid, 'EXECUTE')
    UNION ALL
    SELECT 3, 'public', 'PUBLIC', a.privilege_type, o.object
    FROM (
        SELECT t.object, t.acl FROM tables t
        UNION ALL SELECT f.object, f.acl FROM functions f
        UNION ALL SELECT pg_catalog.format('SCHEMA %I', h.nspname), h.nspacl FROM home h WHERE h.nspname <> 'public'
    ) o
    CROSS JOIN LATERAL pg_catalog.aclexplode(o.acl) a
    WHERE a.grantee = 0
    UNION ALL
    -- A function that runs with another's rights may not write what the schema's owner owns.
    SELECT 4, 'owner', pg_catalog.pg_get_userbyid(h.nspowner)::text, pg_catalog.pg_get_userbyid(o.owner)::text, o.object
    FROM home h
    CROSS JOIN (
        SELECT t.object, t.owner FROM tables t
        UNION ALL SELECT f.object, f.owner FROM functions f
    ) o
    WHERE h.nspname <> 'public' AND o.owner <> h.nspowner
) m
ORDER BY m.nth, m.role, m.object, m.privilege;

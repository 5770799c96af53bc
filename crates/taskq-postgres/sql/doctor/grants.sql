-- What the role of this session lacks to run a worker and to operate: one row for each object and privilege. $1: the schema.
-- Called by: taskq doctor. Locks: none. Reads the catalog only, so it needs no privilege itself.
SELECT current_user::text AS role, m.privilege, m.object
FROM (
    SELECT 0 AS nth, 'USAGE' AS privilege, pg_catalog.format('SCHEMA %I', n.nspname) AS object
    FROM pg_catalog.pg_namespace n
    WHERE n.nspname = $1 AND NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    UNION ALL
    SELECT 1, p.privilege, pg_catalog.format('TABLE %I.%I', n.nspname, c.relname)
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) p(privilege)
    -- Who may read a partitioned table needs no privilege on its partitions.
    WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT pg_catalog.has_table_privilege(c.oid, p.privilege)
        -- What was applied is only read.
        AND (c.relname <> 'schema_migrations' OR p.privilege = 'SELECT')
    UNION ALL
    SELECT 2, 'EXECUTE', pg_catalog.format('FUNCTION %I.%I(%s)', n.nspname, f.proname, pg_catalog.pg_get_function_identity_arguments(f.oid))
    FROM pg_catalog.pg_proc f
    JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
    WHERE n.nspname = $1 AND NOT pg_catalog.has_function_privilege(f.oid, 'EXECUTE')
) m
ORDER BY m.nth, m.object, m.privilege;

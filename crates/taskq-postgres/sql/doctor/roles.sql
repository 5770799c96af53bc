-- The roles that were granted something, and then the role of this session. Its kind is that of the noted role that it is or
-- whose member it is; NULL where there is none. `stands` is false for a role that is gone, NULL for one that grants do not bind.
-- Called by: taskq doctor, `taskq migrate grants`. Locks: none. Indexes: none; the table is small.
SELECT g.role, g.kind, CASE
    WHEN r.oid IS NULL THEN false
    WHEN NOT pg_catalog.pg_has_role(r.oid, n.nspowner, 'MEMBER') THEN true END AS stands
FROM "{schema}".granted_roles g
JOIN pg_catalog.pg_namespace n ON n.nspname = $1
LEFT JOIN pg_catalog.pg_roles r ON r.rolname = g.role
UNION ALL
SELECT current_user::text, (
    SELECT g.kind
    FROM "{schema}".granted_roles g
    JOIN pg_catalog.pg_roles r ON r.rolname = g.role
    WHERE pg_catalog.pg_has_role(r.oid, 'USAGE')
    ORDER BY r.rolname <> current_user, pg_catalog.array_position('{worker,operator,read-only,enqueue-only}', g.kind)
    LIMIT 1
), true

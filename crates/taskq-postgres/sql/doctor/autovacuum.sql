-- Tables for which autovacuum is switched off. $1: the schema.
-- Called by: taskq doctor. Locks: none.
SELECT c.relname::text AS table_name
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN pg_catalog.pg_options_to_table(c.reloptions) o
WHERE n.nspname = $1 AND c.relkind = 'r' AND o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean
ORDER BY c.relname;

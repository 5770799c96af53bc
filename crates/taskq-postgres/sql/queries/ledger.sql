-- What has been applied to the schema.
-- Called by: the check at connect, the migrator. Indexes: none; the table is small. Locks: none.
SELECT m.version, m.phase, m.name, m.checksum, m.applied_at
FROM "{schema}".schema_migrations m
ORDER BY m.version, m.name;

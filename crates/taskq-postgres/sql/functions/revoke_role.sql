-- Takes back what grant_role granted and forgets the role; false when it was not noted. A role that was dropped meanwhile is
-- forgotten as well.
-- Called by: the schema's owner, as by `taskq migrate revoke`. Locks: none of tables. Indexes: granted_roles_pkey.
CREATE OR REPLACE FUNCTION "{schema}".revoke_role(role text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM "{schema}".granted_roles g WHERE g.role = revoke_role.role;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM "{schema}".withdraw_grants(revoke_role.role);
    RETURN true;
END
$$;

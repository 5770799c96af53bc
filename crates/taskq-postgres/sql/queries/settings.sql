-- What is set, in the order of $1, and then what nobody knows. `problem` is what is wrong with a value.
-- Called by: Store::settings. Locks: none. Indexes: settings_pkey.
SELECT coalesce(n.name, s.name) AS name, s.value,
    CASE WHEN s.value IS NOT NULL THEN "{schema}".setting_problem(s.name, s.value) END AS problem
FROM unnest($1) WITH ORDINALITY n(name, nth)
FULL JOIN "{schema}".settings s ON s.name = n.name
ORDER BY n.nth, s.name;

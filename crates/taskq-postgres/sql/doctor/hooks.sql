-- Hooks of ends that come too late: nobody has held them for half as long as events are kept, or what they have not dealt
-- with yet is as old. Of each: since when nobody holds it, how old the first event is that it has not dealt with, and for how
-- long events are kept.
-- Called by: taskq doctor. Locks: none. Indexes: hooks_pkey, job_events_pkey, settings_pkey.
SELECT h.hook::text, h.since::text AS unheld_since, h.unheld_for, h.waits, h.kept
FROM (
    SELECT k.hook, p.kept, CASE WHEN u.unheld THEN k.held_until END AS since,
        CASE WHEN u.unheld THEN "{schema}".clock() - k.held_until END AS unheld_for,
        (
            SELECT "{schema}".clock() - e.occurred_at FROM "{schema}".job_events e
            WHERE (e.xid, e.id) > (k.xid, k.id)
            ORDER BY e.xid, e.id
            LIMIT 1
        ) AS waits
    FROM "{schema}".hooks k
    CROSS JOIN LATERAL (SELECT coalesce(k.held_until <= "{schema}".clock(), true) AS unheld) u
    CROSS JOIN LATERAL (
        SELECT CASE
            -- A value that makes no sense keeps everything, until somebody puts it right.
            WHEN EXISTS (
                SELECT FROM "{schema}".settings s
                WHERE s.name = 'event_retention_period' AND "{schema}".setting_problem(s.name, s.value) IS NOT NULL
            ) THEN interval '0'
            ELSE coalesce((
                SELECT (s.value #>> '{}')::interval FROM "{schema}".settings s WHERE s.name = 'event_retention_period'
            ), interval '7 days')
        END AS kept
    ) p
) h
WHERE h.kept > interval '0' AND greatest(h.unheld_for, h.waits) > h.kept / 2
ORDER BY h.hook;

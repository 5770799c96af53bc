-- Picks where a claim without a turn starts in the ring of a queue in round_robin mode: each actor with the same chance,
-- and in an actor any of its lanes.
-- Called by: claim, claim_slots. Locks: none. Indexes: jobs_ready_idx.
-- The lanes between the first and the last are halved at a point between them, and one of the halves is taken by chance,
-- until one lane is left. The point is what first and last have in common and a character between those that follow, so
-- keys that all begin alike are told apart where they differ, and every lane has its chance. Each step is one probe:
-- about 15 for 10,000 numbered keys, and never more than 64.
CREATE OR REPLACE FUNCTION "{schema}".start_turn(
    name text, actors text[], OUT from_actor text, OUT from_cohort text
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    low text COLLATE "C";
    high text COLLATE "C";
    point text COLLATE "C";
    same integer := 0;
    least_code integer;
    code integer;
BEGIN
    from_actor := actors[1 + floor(random() * cardinality(actors))];
    SELECT j.cohort INTO low FROM "{schema}".jobs j
    WHERE j.queue = name AND j.actor = from_actor AND j.status = 'pending'
    ORDER BY j.cohort, j.priority DESC, j.scheduled_at, j.id
    LIMIT 1;
    IF low IS NULL THEN
        from_cohort := '';
        RETURN;
    END IF;
    SELECT j.cohort INTO high FROM "{schema}".jobs j
    WHERE j.queue = name AND j.actor = from_actor AND j.status = 'pending'
    ORDER BY j.cohort DESC, j.priority, j.scheduled_at DESC, j.id DESC
    LIMIT 1;
    FOR step IN 1 .. 64 LOOP
        EXIT WHEN low >= high;
        WHILE substr(low, same + 1, 1) = substr(high, same + 1, 1) LOOP
            same := same + 1;
        END LOOP;
        IF getdatabaseencoding() = 'UTF8' THEN
            -- A key that ends here goes on with a space at least, since keys have no control characters.
            least_code := greatest(ascii(substr(low, same + 1, 1)), 31) + 1;
            code := least_code + floor(random() * (ascii(substr(high, same + 1, 1)) - least_code + 1));
            -- What lies between U+D800 and U+DFFF is no character.
            point := left(high, same) || chr(CASE WHEN code BETWEEN 55296 AND 57343 THEN 57344 ELSE code END);
        ELSE
            point := left(high, same + 1);
        END IF;
        IF random() < 0.5 THEN
            SELECT j.cohort INTO low FROM "{schema}".jobs j
            WHERE j.queue = name AND j.actor = from_actor AND j.cohort >= point AND j.status = 'pending'
            ORDER BY j.cohort, j.priority DESC, j.scheduled_at, j.id
            LIMIT 1;
        ELSE
            SELECT j.cohort INTO high FROM "{schema}".jobs j
            WHERE j.queue = name AND j.actor = from_actor AND j.cohort < point AND j.status = 'pending'
            ORDER BY j.cohort DESC, j.priority, j.scheduled_at DESC, j.id DESC
            LIMIT 1;
        END IF;
        -- Others have taken that half meanwhile.
        EXIT WHEN low IS NULL OR high IS NULL;
    END LOOP;
    from_cohort := coalesce(low, high, '');
END
$$;

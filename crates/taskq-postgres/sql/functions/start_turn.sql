-- Picks where a claim without a turn starts in the ring of a queue in round_robin mode: each actor has the same chance, and
-- of an actor's lanes each has about the same.
-- Called by: claim, claim_slots. Locks: none. Indexes: jobs_ready_idx.
-- The lanes between the first and the last are divided at a point between them, and one of the parts is taken by the toss
-- of a coin, until one lane is left. The point is what first and last have in common and a character between those that
-- follow, so keys that all begin alike are told apart where they differ. A lane that was reached after few tosses had a
-- greater chance than others, so several lanes are drawn and one of them is chosen with the inverse of its chance. Each
-- toss is one probe: about 11 whether there are 10 lanes or 10,000, and never more than 64.
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
    first text COLLATE "C";
    last text COLLATE "C";
    low text COLLATE "C";
    high text COLLATE "C";
    point text COLLATE "C";
    same integer;
    all_same integer := 0;
    least_code integer;
    codes integer;
    code integer;
    tosses integer := 0;
    weight float8;
    weights float8 := 0;
BEGIN
    from_actor := actors[1 + floor(random() * cardinality(actors))];
    from_cohort := '';
    SELECT j.cohort INTO first FROM "{schema}".jobs j
    WHERE j.queue = name AND j.actor = from_actor AND j.status = 'pending'
    ORDER BY j.cohort, j.priority DESC, j.scheduled_at, j.id
    LIMIT 1;
    IF first IS NULL THEN
        RETURN;
    END IF;
    SELECT j.cohort INTO last FROM "{schema}".jobs j
    WHERE j.queue = name AND j.actor = from_actor AND j.status = 'pending'
    ORDER BY j.cohort DESC, j.priority, j.scheduled_at DESC, j.id DESC
    LIMIT 1;
    IF first < last THEN
        WHILE substr(first, all_same + 1, 1) = substr(last, all_same + 1, 1) LOOP
            all_same := all_same + 1;
        END LOOP;
    END IF;
    FOR draw IN 1 .. 8 LOOP
        low := first;
        high := last;
        same := all_same;
        weight := 1;
        WHILE low < high AND tosses < 64 LOOP
            WHILE substr(low, same + 1, 1) = substr(high, same + 1, 1) LOOP
                same := same + 1;
            END LOOP;
            IF getdatabaseencoding() = 'UTF8' THEN
                -- A key that ends here goes on with a space at least, since keys have no control characters.
                least_code := greatest(ascii(substr(low, same + 1, 1)), 31) + 1;
                codes := ascii(substr(high, same + 1, 1)) - least_code + 1;
                -- Characters that lie far apart are of different scripts, of which the lower ones are more common.
                code := least_code + CASE WHEN codes <= 128 THEN floor(random() * codes) ELSE floor(power(codes, random())) - 1 END;
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
            tosses := tosses + 1;
            weight := weight * 2;
        END LOOP;
        weights := weights + weight;
        IF random() * weights < weight THEN
            -- One of them is gone when others have taken that part meanwhile.
            from_cohort := coalesce(low, high, '');
        END IF;
        EXIT WHEN tosses >= 8 OR first >= last;
    END LOOP;
END
$$;

-- How long to wait after the `attempt`-th attempt (counted from 1) has failed.
-- Called by: settle. Locks: none. Indexes: none.
-- base * factor^(attempt - 1), at most cap, spread by jitter with `chance` in 0..1. A missing field or policy
-- has its default (5 s, 2, 1 h, 0.2). Compared by logarithm first, so no attempt number overflows.
CREATE OR REPLACE FUNCTION "{schema}".retry_delay(
    policy jsonb, attempt integer, chance double precision DEFAULT pg_catalog.random()
) RETURNS interval
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    base double precision := coalesce(extract(epoch FROM (policy ->> 'base')::interval), 5);
    factor double precision := coalesce((policy ->> 'factor')::double precision, 2);
    cap double precision := coalesce(extract(epoch FROM (policy ->> 'cap')::interval), 3600);
    jitter double precision := coalesce((policy ->> 'jitter')::double precision, 0.2);
    steps integer := greatest(attempt, 1) - 1;
    delay double precision;
BEGIN
    IF base <= 0 OR cap <= 0 THEN
        RETURN interval '0';
    END IF;
    IF steps * pg_catalog.ln(factor) >= pg_catalog.ln(cap / base) THEN
        delay := cap;
    ELSE
        delay := base * pg_catalog.power(factor, steps);
    END IF;
    delay := delay + delay * jitter * (2 * least(greatest(chance, 0), 1) - 1);
    RETURN pg_catalog.make_interval(secs => least(greatest(delay, 0), cap));
END
$$;

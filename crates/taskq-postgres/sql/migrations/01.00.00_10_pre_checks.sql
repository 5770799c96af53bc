-- PostgreSQL reads a table's CHECK constraints anew for every statement that writes to it, which was a third of what a
-- single enqueue cost. What the functions have checked already is not checked again; what remains keeps a job from being
-- neither unfinished nor ever swept, and says it in few words: the final statuses are the last of the type.

ALTER TABLE "{schema}".jobs
    DROP CONSTRAINT jobs_max_attempts_check,
    DROP CONSTRAINT jobs_running_check,
    DROP CONSTRAINT jobs_finished_check,
    ADD CONSTRAINT jobs_finished_check CHECK ((finished_at IS NOT NULL) = (status >= 'succeeded')) NOT VALID;

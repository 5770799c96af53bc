-- Apart from the file before, since it reads the whole table: this way it locks nobody out meanwhile.

ALTER TABLE "{schema}".jobs VALIDATE CONSTRAINT jobs_finished_check;

-- Which roles of the server were granted what, so that an upgrade can grant them what is new.

CREATE TABLE "{schema}".granted_roles (
    role text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    CONSTRAINT granted_roles_pkey PRIMARY KEY (role),
    CONSTRAINT granted_roles_kind_check CHECK (kind IN ('worker', 'enqueue-only', 'read-only', 'operator'))
);

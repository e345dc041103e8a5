application_id = 0x62746368
user_version = 1

CREATE TABLE activity_buckets (
    width INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    account TEXT NOT NULL,
    owner TEXT NOT NULL,
    running INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    millicpus INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    measured INTEGER NOT NULL,
    used_millicpus INTEGER NOT NULL,
    used_mib INTEGER NOT NULL,
    hourly_cost INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    stopped INTEGER NOT NULL,

    wait_0 INTEGER NOT NULL,
    wait_1 INTEGER NOT NULL,
    wait_2 INTEGER NOT NULL,
    wait_3 INTEGER NOT NULL,
    wait_4 INTEGER NOT NULL,
    wait_5 INTEGER NOT NULL,
    wait_6 INTEGER NOT NULL,
    wait_7 INTEGER NOT NULL,
    wait_8 INTEGER NOT NULL,
    wait_9 INTEGER NOT NULL,
    wait_10 INTEGER NOT NULL,
    wait_11 INTEGER NOT NULL,
    wait_12 INTEGER NOT NULL,
    wait_13 INTEGER NOT NULL,
    wait_14 INTEGER NOT NULL,
    PRIMARY KEY (width, began_at, queue, account, owner)
) WITHOUT ROWID;
CREATE TABLE activity_samples (
    width INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    machine_samples INTEGER NOT NULL,
    millicpus INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    PRIMARY KEY (width, began_at)
) WITHOUT ROWID;
CREATE TABLE audit_log (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    user TEXT NOT NULL,
    account TEXT NOT NULL,
    key TEXT NOT NULL,
    request_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    resource TEXT NOT NULL,
    outcome TEXT NOT NULL,
    owner TEXT NOT NULL,
    owner_account TEXT NOT NULL,
    journal_entry TEXT
);
CREATE INDEX audit_log_by_account ON audit_log (account, at);
CREATE UNIQUE INDEX audit_log_by_journal_entry ON audit_log (journal_entry) WHERE journal_entry IS NOT NULL;
CREATE INDEX audit_log_by_owner ON audit_log (owner, at) WHERE owner <> '';
CREATE INDEX audit_log_by_owner_account ON audit_log (owner_account, at) WHERE owner_account <> '';
CREATE INDEX audit_log_by_resource ON audit_log (resource, at);
CREATE INDEX audit_log_by_time ON audit_log (at);
CREATE INDEX audit_log_by_user ON audit_log (user, at);
CREATE TABLE budgets (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;
CREATE TABLE bulk_stop_targets (
    bulk_stop INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    node INTEGER NOT NULL,
    PRIMARY KEY (bulk_stop, sequence, node)
) WITHOUT ROWID;
CREATE TABLE bulk_stops (
    number INTEGER PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE capacity_buckets (
    width INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    environment TEXT NOT NULL,
    samples INTEGER NOT NULL,
    limit_millicpus INTEGER NOT NULL,
    running INTEGER NOT NULL,
    millicpus INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    measured INTEGER NOT NULL,
    used_millicpus INTEGER NOT NULL,
    used_mib INTEGER NOT NULL,
    hourly_cost INTEGER NOT NULL,
    PRIMARY KEY (width, began_at, environment)
) WITHOUT ROWID;
CREATE TABLE catalog_resources (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE TABLE consumable_resource_updates (
    resource TEXT NOT NULL,
    token TEXT NOT NULL,
    at INTEGER NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (resource, token)
) WITHOUT ROWID;
CREATE INDEX consumable_resource_updates_by_age ON consumable_resource_updates (at);
CREATE TABLE consumed_units (
    resource TEXT PRIMARY KEY,
    units INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE discarded_logs (
    log_id TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE job_consumable_resources (
    resource TEXT NOT NULL,
    sequence INTEGER NOT NULL REFERENCES jobs (sequence),
    PRIMARY KEY (resource, sequence)
) WITHOUT ROWID;
CREATE INDEX job_consumable_resources_by_job ON job_consumable_resources (sequence);
CREATE TABLE job_definitions (
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    status TEXT NOT NULL,
    owner TEXT NOT NULL,
    account TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name, revision)
);
CREATE INDEX job_definitions_by_account ON job_definitions (account, name, revision, status);
CREATE INDEX job_definitions_by_owner ON job_definitions (owner, name, revision, status);
CREATE INDEX job_definitions_by_status ON job_definitions (status, name, revision);
CREATE TABLE job_dependencies (
    dependency_id TEXT NOT NULL,
    sequence INTEGER NOT NULL REFERENCES jobs (sequence),
    PRIMARY KEY (dependency_id, sequence)
) WITHOUT ROWID;
CREATE INDEX job_dependencies_by_job ON job_dependencies (sequence);
CREATE TABLE job_groups (
    id TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    account TEXT NOT NULL,
    ended_at INTEGER,
    value TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX job_groups_by_name ON job_groups (name, sequence, owner, account, ended_at);
CREATE INDEX job_groups_by_order ON job_groups (sequence, owner, account, name, ended_at);
CREATE TABLE job_history (
    number INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL REFERENCES jobs (sequence),
    value TEXT NOT NULL
);
CREATE INDEX job_history_by_job ON job_history (sequence);
CREATE TABLE job_specs (
    sequence INTEGER PRIMARY KEY REFERENCES jobs (sequence),
    spec TEXT NOT NULL
);
CREATE TABLE jobs (
    sequence INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    queue TEXT NOT NULL,
    status TEXT NOT NULL,
    passed_over INTEGER NOT NULL,
    has_array_work INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    owner TEXT NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    revision INTEGER NOT NULL,
    share_identifier TEXT,
    rank INTEGER NOT NULL,
    millicpus INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    node_runs TEXT,
    engines TEXT,
    timeout INTEGER,
    parent_sequence INTEGER REFERENCES jobs (sequence),
    array_size INTEGER NOT NULL,
    consumable_requirements TEXT,
    rerun_of TEXT,
    group_id TEXT,
    state TEXT NOT NULL
);
CREATE INDEX jobs_active ON jobs (status) WHERE status IN ('STARTING', 'RUNNING');
CREATE INDEX jobs_by_account ON jobs (account, queue, status) WHERE parent_sequence IS NULL;
CREATE INDEX jobs_by_group ON jobs (group_id, sequence, status, owner, account, parent_sequence) WHERE group_id IS NOT NULL;
CREATE INDEX jobs_by_owner ON jobs (owner, queue, status) WHERE parent_sequence IS NULL;
CREATE INDEX jobs_by_parent ON jobs (parent_sequence) WHERE parent_sequence IS NOT NULL;
CREATE INDEX jobs_by_queue ON jobs (
    queue, sequence, name, definition, revision, created_at, share_identifier, parent_sequence
)
WHERE parent_sequence IS NULL;
CREATE INDEX jobs_by_rerun ON jobs (rerun_of, sequence, id) WHERE rerun_of IS NOT NULL;
CREATE INDEX jobs_by_status ON jobs (queue, status, sequence, share_identifier, parent_sequence) WHERE parent_sequence IS NULL;
CREATE INDEX jobs_failed ON jobs (finished_at, sequence, owner, account, queue, name, definition, revision)
WHERE status = 'FAILED' AND parent_sequence IS NULL;
CREATE INDEX jobs_finished ON jobs (finished_at, sequence, id, array_size)
WHERE finished_at IS NOT NULL AND parent_sequence IS NULL;
CREATE INDEX jobs_held ON jobs (passed_over, sequence, account, owner, queue, status, name, parent_sequence)
WHERE passed_over = 2;
CREATE INDEX jobs_pending ON jobs (account, array_size, sequence, status, queue, owner)
WHERE status IN ('SUBMITTED', 'PENDING');
CREATE INDEX jobs_runnable ON jobs (
    queue, sequence, id, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, account,
    status, passed_over
)
WHERE status = 'RUNNABLE' AND passed_over = 0;
CREATE INDEX jobs_runnable_by_account ON jobs (queue, account, sequence, status, passed_over)
WHERE status = 'RUNNABLE' AND passed_over = 0;
CREATE INDEX jobs_runnable_in_share ON jobs (
    queue, share_identifier, rank, sequence, id, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, account,
    status, passed_over
)
WHERE status = 'RUNNABLE' AND passed_over = 0 AND share_identifier IS NOT NULL;
CREATE INDEX jobs_runnable_in_share_by_account ON jobs (
    queue, share_identifier, account, rank, sequence, status, passed_over
)
WHERE status = 'RUNNABLE' AND passed_over = 0 AND share_identifier IS NOT NULL;
CREATE INDEX jobs_unfinished ON jobs (owner, account, queue, name, parent_sequence, sequence, finished_at)
WHERE finished_at IS NULL;
CREATE INDEX jobs_unschedulable ON jobs (passed_over) WHERE status = 'RUNNABLE' AND passed_over = 1;
CREATE INDEX jobs_waiting_in_group ON jobs (group_id, sequence, array_size, passed_over, status)
WHERE group_id IS NOT NULL AND status = 'PENDING';
CREATE INDEX jobs_with_array_work ON jobs (has_array_work) WHERE has_array_work = 1;
CREATE TABLE log_streams (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    account TEXT NOT NULL,
    value TEXT NOT NULL
);
CREATE INDEX log_streams_by_account ON log_streams (account, name);
CREATE INDEX log_streams_by_account_and_age ON log_streams (account, created_at, name);
CREATE INDEX log_streams_by_age ON log_streams (created_at, name);
CREATE INDEX log_streams_by_owner ON log_streams (owner, name);
CREATE INDEX log_streams_by_owner_and_age ON log_streams (owner, created_at, name);
CREATE TABLE metadata (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE quarantine (
    number INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL,
    column_name TEXT NOT NULL,
    raw BLOB
);
CREATE INDEX quarantine_by_job ON quarantine (sequence);
CREATE TABLE share_usage (
    queue TEXT NOT NULL,
    share_identifier TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (queue, share_identifier)
) WITHOUT ROWID;
CREATE TABLE spending (
    day INTEGER NOT NULL,
    account TEXT NOT NULL,
    owner TEXT NOT NULL,
    queue TEXT NOT NULL,
    definition TEXT NOT NULL,
    currency TEXT NOT NULL,
    gpu INTEGER NOT NULL,
    compute INTEGER NOT NULL,
    PRIMARY KEY (day, account, owner, queue, definition, currency)
) WITHOUT ROWID;
CREATE TABLE submissions (
    principal TEXT NOT NULL,
    invocation_id TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    job_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (principal, invocation_id, body_sha256)
) WITHOUT ROWID;
CREATE INDEX submissions_by_age ON submissions (at);
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL,
    value TEXT NOT NULL,
    progress TEXT NOT NULL
) WITHOUT ROWID;

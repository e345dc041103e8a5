-- Schema 1. A later version adds a file 0002_*.sql; this file never changes after a release.
--
-- Conventions:
--   * A value that a statement searches or sorts by has a column. All other data of a row is one JSON text (`value`,
--     `state`, `spec`), whose members are the fields of the domain value; members with their default are omitted.
--   * `sequence` is Job.sequence, the position of a job in the order of submission. It is the key
--     of `jobs`, and every table with rows of a job refers to it.
--   * `owner` is a user name, `account` an account name. Owner '' is no user, account 'root' the topmost account.
--   * Times are integers since 1970-01-01T00:00:00Z, in microseconds where no other unit is given.
--   * Booleans are 0 or 1. A column that may be NULL says what NULL means.

-- ------------------------------------------------------------------------------------------------------------- server

-- Single values: 'instance', 'version' (of the batchq that last opened the data), 'secret', 'clock', 'engine', 'survey', 'restoration',
-- 'forgotten_through' (the highest number of the history that was deleted), 'activity_through' (the number of the history
-- through which `activity_buckets` counts it), and one row 'flag NAME' for each flag.
CREATE TABLE metadata (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL -- plain text, or JSON: ClockAnchor for 'clock', Restoration for 'restoration', SurveyRecord for 'survey'; '' for a flag
) WITHOUT ROWID;

-- Unreadable column values of jobs, copied before the row was repaired.
CREATE TABLE quarantine (
    number INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL,
    column_name TEXT NOT NULL, -- the column that held the value: 'state', 'spec' or 'consumable_requirements'
    raw BLOB -- the bytes as they were stored; NULL if the column was NULL
);
CREATE INDEX quarantine_by_job ON quarantine (sequence);

-- The audit log: one row for each change that a user or a command made.
CREATE TABLE audit_log (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    user TEXT NOT NULL, -- the acting user
    account TEXT NOT NULL, -- the account of the acting user
    key TEXT NOT NULL, -- the access key of the request; '' without authentication
    request_id TEXT NOT NULL, -- '' for a command
    operation TEXT NOT NULL, -- such as SubmitJob
    resource TEXT NOT NULL, -- what was changed, as job/ID or user/NAME
    outcome TEXT NOT NULL, -- 'done', 'failed' or the outcome of a bulk stop
    owner TEXT NOT NULL, -- the owner of the job in `resource`; '' if that is the acting user
    owner_account TEXT NOT NULL, -- the account of that owner; '' if that is `account`
    journal_entry TEXT -- the id of the journal entry that was ingested; NULL for a row that the server wrote
);
CREATE INDEX audit_log_by_time ON audit_log (at);
CREATE INDEX audit_log_by_user ON audit_log (user, at);
CREATE INDEX audit_log_by_account ON audit_log (account, at);
CREATE INDEX audit_log_by_resource ON audit_log (resource, at);
CREATE INDEX audit_log_by_owner ON audit_log (owner, at) WHERE owner <> '';
CREATE INDEX audit_log_by_owner_account ON audit_log (owner_account, at) WHERE owner_account <> '';
CREATE UNIQUE INDEX audit_log_by_journal_entry ON audit_log (journal_entry) WHERE journal_entry IS NOT NULL;

-- ------------------------------------------------------------------------------------------------------------ catalog

CREATE TABLE catalog_resources (
    kind TEXT NOT NULL, -- the class of `value`
    name TEXT NOT NULL,
    value TEXT NOT NULL, -- JSON of ComputeEnvironment, ConsumableResource, JobQueue or SchedulingPolicy
    PRIMARY KEY (kind, name)
);

CREATE TABLE job_definitions (
    name TEXT NOT NULL,
    revision INTEGER NOT NULL, -- from 1
    status TEXT NOT NULL, -- ACTIVE or INACTIVE
    owner TEXT NOT NULL,
    account TEXT NOT NULL,
    value TEXT NOT NULL, -- JSON of JobDefinition
    PRIMARY KEY (name, revision)
);
CREATE INDEX job_definitions_by_status ON job_definitions (status, name, revision);
CREATE INDEX job_definitions_by_owner ON job_definitions (owner, name, revision, status);
CREATE INDEX job_definitions_by_account ON job_definitions (account, name, revision, status);

-- Recent UpdateConsumableResource calls, by which a repeated call is recognized.
CREATE TABLE consumable_resource_updates (
    resource TEXT NOT NULL,
    token TEXT NOT NULL, -- the clientToken of the call
    at INTEGER NOT NULL,
    value TEXT NOT NULL, -- JSON of ConsumableUpdate
    PRIMARY KEY (resource, token)
) WITHOUT ROWID;
CREATE INDEX consumable_resource_updates_by_age ON consumable_resource_updates (at);

-- How many units of each NON_REPLENISHABLE resource jobs have used up.
CREATE TABLE consumed_units (
    resource TEXT PRIMARY KEY,
    units INTEGER NOT NULL
) WITHOUT ROWID;

-- The decayed usage of each share of a fair-share queue.
CREATE TABLE share_usage (
    queue TEXT NOT NULL,
    share_identifier TEXT NOT NULL,
    value TEXT NOT NULL, -- JSON of ShareUse
    PRIMARY KEY (queue, share_identifier)
) WITHOUT ROWID;

-- --------------------------------------------------------------------------------------------------------------- jobs

-- One row for each job. The children of an array have the `array_size` sequences directly behind that of their array.
CREATE TABLE jobs (
    sequence INTEGER PRIMARY KEY, -- Job.sequence
    id TEXT NOT NULL UNIQUE, -- Job.id
    version INTEGER NOT NULL, -- how often the job was updated; each UPDATE expects the version that was read
    queue TEXT NOT NULL, -- the name of the job queue
    status TEXT NOT NULL, -- AWS: SUBMITTED .. FAILED
    passed_over INTEGER NOT NULL, -- 0: may be placed; 1: no environment of the queue can ever hold it; 2: held
    has_array_work INTEGER NOT NULL, -- boolean: an array with children to spawn, or with an order to pass on to them
    created_at INTEGER NOT NULL, -- in milliseconds, as the filters of ListJobs compare it
    finished_at INTEGER, -- NULL until the job is SUCCEEDED or FAILED
    owner TEXT NOT NULL,
    account TEXT NOT NULL,
    name TEXT NOT NULL, -- the job name in lower case, as the filters of ListJobs compare it
    definition TEXT NOT NULL, -- the name of the job definition
    revision INTEGER NOT NULL, -- the revision of the job definition
    share_identifier TEXT, -- NULL outside fair-share queues
    rank INTEGER NOT NULL, -- the negated schedulingPriority: within a share the lowest rank starts first
    millicpus INTEGER NOT NULL, -- reserved for all containers of the job, in thousandths of a vCPU
    memory_mib INTEGER NOT NULL, -- reserved for all containers of the job, in MiB
    gpus INTEGER NOT NULL, -- reserved for all containers of the job
    node_runs TEXT, -- JSON of a tuple of NodeRun; NULL for a job with one node
    engines TEXT, -- the container engines that can run the job, with spaces between them; NULL: all
    timeout INTEGER, -- the longest run of an attempt, in microseconds; NULL without a limit
    parent_sequence INTEGER REFERENCES jobs (sequence), -- the array of a child; NULL for a job that is not a child
    array_size INTEGER NOT NULL, -- how many children the array has, spawned or not; 0 for any other job
    consumable_requirements TEXT, -- JSON of a tuple of ConsumableRequirement; NULL without consumable resources
    rerun_of TEXT, -- Job.id of the job that this one repeats; NULL without one, and for a child
    group_id TEXT, -- the group of the job; NULL without one
    state TEXT NOT NULL -- JSON of Job without `spec`; the last column, because searches do not read it
);

-- ListJobs: one status, or a whole queue. The children of arrays are not listed. Both indexes cover every filter.
CREATE INDEX jobs_by_status ON jobs (queue, status, sequence, share_identifier, parent_sequence) WHERE parent_sequence IS NULL;
CREATE INDEX jobs_by_queue ON jobs (
    queue, sequence, name, definition, revision, created_at, share_identifier, parent_sequence
)
WHERE parent_sequence IS NULL;

-- The cost of a list grows with the visible jobs of the caller, not with the jobs of other users.
CREATE INDEX jobs_by_owner ON jobs (owner, queue, status) WHERE parent_sequence IS NULL;
CREATE INDEX jobs_by_account ON jobs (account, queue, status) WHERE parent_sequence IS NULL;

-- The placement pass reads candidates from these indexes alone. Finished jobs are not in them.
CREATE INDEX jobs_runnable ON jobs (
    queue, sequence, id, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, share_identifier, rank, account,
    status, passed_over
)
WHERE status = 'RUNNABLE' AND passed_over = 0;
CREATE INDEX jobs_runnable_in_share ON jobs (
    queue, share_identifier, rank, sequence, id, millicpus, memory_mib, gpus, node_runs, engines, consumable_requirements, timeout, account,
    status, passed_over
)
WHERE status = 'RUNNABLE' AND passed_over = 0 AND share_identifier IS NOT NULL;

-- The reader seeks from one account to the next, and so skips the jobs of an account that is at its limit.
CREATE INDEX jobs_runnable_by_account ON jobs (queue, account, sequence, status, passed_over)
WHERE status = 'RUNNABLE' AND passed_over = 0;
CREATE INDEX jobs_runnable_in_share_by_account ON jobs (
    queue, share_identifier, account, rank, sequence, status, passed_over
)
WHERE status = 'RUNNABLE' AND passed_over = 0 AND share_identifier IS NOT NULL;

-- Small indexes of the engine: they hold unfinished jobs only.
CREATE INDEX jobs_unschedulable ON jobs (passed_over) WHERE status = 'RUNNABLE' AND passed_over = 1;
CREATE INDEX jobs_held ON jobs (passed_over, sequence, account, owner, queue, status, name, parent_sequence)
WHERE passed_over = 2;
CREATE INDEX jobs_active ON jobs (status) WHERE status IN ('STARTING', 'RUNNING');
CREATE INDEX jobs_with_array_work ON jobs (has_array_work) WHERE has_array_work = 1;
CREATE INDEX jobs_pending ON jobs (account, array_size, sequence, status, queue, owner)
WHERE status IN ('SUBMITTED', 'PENDING');

-- The filters of a bulk stop. The indexed columns never change, so that a job enters and leaves the index once.
CREATE INDEX jobs_unfinished ON jobs (owner, account, queue, name, parent_sequence, sequence, finished_at)
WHERE finished_at IS NULL;

-- Retention reads finished jobs, oldest first. Children are deleted with their array.
CREATE INDEX jobs_finished ON jobs (finished_at, sequence, id, array_size)
WHERE finished_at IS NOT NULL AND parent_sequence IS NULL;

-- The job search and the overview read failures, last first. Written once for each failed job.
CREATE INDEX jobs_failed ON jobs (finished_at, sequence, owner, account, queue, name, definition, revision)
WHERE status = 'FAILED' AND parent_sequence IS NULL;

-- SQLite looks for children when a row is deleted; without this index it would scan the table.
CREATE INDEX jobs_by_parent ON jobs (parent_sequence) WHERE parent_sequence IS NOT NULL;

-- As which jobs a job was submitted again.
CREATE INDEX jobs_by_rerun ON jobs (rerun_of, sequence, id) WHERE rerun_of IS NOT NULL;

-- The jobs of a group, and those of them that wait for a place: with max_running, no other job of the group is read.
CREATE INDEX jobs_by_group ON jobs (group_id, sequence, status, owner, account, parent_sequence) WHERE group_id IS NOT NULL;
CREATE INDEX jobs_waiting_in_group ON jobs (group_id, sequence, array_size, passed_over, status)
WHERE group_id IS NOT NULL AND status = 'PENDING';

-- Jobs that were submitted together. A group is deleted after its last job.
CREATE TABLE job_groups (
    id TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL, -- Job.sequence of the first job
    name TEXT NOT NULL, -- in lower case
    owner TEXT NOT NULL,
    account TEXT NOT NULL,
    ended_at INTEGER, -- NULL: a job is unfinished
    value TEXT NOT NULL -- JSON of Group
) WITHOUT ROWID;
CREATE INDEX job_groups_by_order ON job_groups (sequence, owner, account, name, ended_at);
CREATE INDEX job_groups_by_name ON job_groups (name, sequence, owner, account, ended_at);

-- The specification of each job, in its own table because it never changes. The children of an array share its row.
CREATE TABLE job_specs (
    sequence INTEGER PRIMARY KEY REFERENCES jobs (sequence),
    spec TEXT NOT NULL -- JSON of JobSpec
);

-- The dependencies of jobs that are SUBMITTED or PENDING.
CREATE TABLE job_dependencies (
    dependency_id TEXT NOT NULL, -- Job.id of the job that must succeed first
    sequence INTEGER NOT NULL REFERENCES jobs (sequence), -- the job that waits
    PRIMARY KEY (dependency_id, sequence)
) WITHOUT ROWID;
CREATE INDEX job_dependencies_by_job ON job_dependencies (sequence);

-- Which jobs require which consumable resource. Finished jobs stay in the table; the row of an array counts for its
-- children.
CREATE TABLE job_consumable_resources (
    resource TEXT NOT NULL,
    sequence INTEGER NOT NULL REFERENCES jobs (sequence),
    PRIMARY KEY (resource, sequence)
) WITHOUT ROWID;
CREATE INDEX job_consumable_resources_by_job ON job_consumable_resources (sequence);

-- The statuses that jobs have had: one feed of all jobs. The entries of a transaction have consecutive numbers. A number
-- is never used again: the next one is above all numbers here and above 'forgotten_through'. (AUTOINCREMENT would write
-- another row for each entry.)
CREATE TABLE job_history (
    number INTEGER PRIMARY KEY, -- from 1, in the order of the commits
    sequence INTEGER NOT NULL REFERENCES jobs (sequence),
    value TEXT NOT NULL -- JSON of HistoryEntry without `job_id`
);
CREATE INDEX job_history_by_job ON job_history (sequence);

-- Recent SubmitJob calls, by which a retried call is recognized.
CREATE TABLE submissions (
    principal TEXT NOT NULL, -- the caller
    invocation_id TEXT NOT NULL, -- amz-sdk-invocation-id of the call
    body_sha256 TEXT NOT NULL, -- SHA-256 of the request body, in hexadecimal digits
    job_id TEXT NOT NULL, -- Job.id of the job that the call created
    at INTEGER NOT NULL,
    PRIMARY KEY (principal, invocation_id, body_sha256)
) WITHOUT ROWID;
CREATE INDEX submissions_by_age ON submissions (at);

-- A bulk stop that is being executed.
CREATE TABLE bulk_stops (
    number INTEGER PRIMARY KEY,
    value TEXT NOT NULL -- JSON of BulkStop
);

-- The jobs that a bulk stop selected and has not stopped yet.
CREATE TABLE bulk_stop_targets (
    bulk_stop INTEGER NOT NULL, -- bulk_stops.number
    sequence INTEGER NOT NULL,
    node INTEGER NOT NULL, -- the index of the node of a multi-node job; -1 for the whole job
    PRIMARY KEY (bulk_stop, sequence, node)
) WITHOUT ROWID;

-- Webhooks, with how far each one is in the history.
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL,
    value TEXT NOT NULL, -- JSON of Webhook; contains its secrets
    progress TEXT NOT NULL -- JSON of DeliveryProgress
) WITHOUT ROWID;

-- -------------------------------------------------------------------------------------------------------------- costs

-- What ended attempts cost, by the day on which their containers ran. Amounts are in billionths of the currency. No row
-- is deleted with its jobs: budgets and reports need it longer.
CREATE TABLE spending (
    day INTEGER NOT NULL, -- days since 1970-01-01, in UTC
    account TEXT NOT NULL,
    owner TEXT NOT NULL,
    queue TEXT NOT NULL,
    definition TEXT NOT NULL, -- the name of the job definition
    currency TEXT NOT NULL, -- ISO 4217
    gpu INTEGER NOT NULL, -- for GPUs
    compute INTEGER NOT NULL, -- for vCPUs and memory
    PRIMARY KEY (day, account, owner, queue, definition, currency)
) WITHOUT ROWID;

CREATE TABLE budgets (
    scope TEXT NOT NULL, -- ACCOUNT or QUEUE
    name TEXT NOT NULL, -- of the account or queue
    value TEXT NOT NULL, -- JSON of Budget
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;

-- ----------------------------------------------------------------------------------------------------------- activity

-- How many samples each bucket of time has. Its rows in the tables below are deleted with it. Decision 0105.
CREATE TABLE activity_samples (
    width INTEGER NOT NULL, -- in seconds: 300 or 3600
    began_at INTEGER NOT NULL, -- in seconds since the epoch, a multiple of `width`
    samples INTEGER NOT NULL, -- 0: jobs ended or started, and the server ended before the first sample
    machine_samples INTEGER NOT NULL, -- how many of them know the machines
    millicpus INTEGER NOT NULL, -- the sum over `machine_samples` of what jobs may request of all machines
    memory_mib INTEGER NOT NULL, -- the same
    gpus INTEGER NOT NULL, -- the same
    PRIMARY KEY (width, began_at)
) WITHOUT ROWID;

CREATE TABLE capacity_buckets (
    width INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    environment TEXT NOT NULL, -- an enabled compute environment, or one with active jobs
    samples INTEGER NOT NULL,
    limit_millicpus INTEGER NOT NULL, -- the sum over these samples of its vCPUs; of a disabled environment 0
    running INTEGER NOT NULL, -- the sum over these samples of its active jobs of all owners, as the columns below
    millicpus INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    measured INTEGER NOT NULL,
    used_millicpus INTEGER NOT NULL,
    used_mib INTEGER NOT NULL,
    hourly_cost INTEGER NOT NULL,
    PRIMARY KEY (width, began_at, environment)
) WITHOUT ROWID;

-- The jobs of one owner in one queue. A bucket has a bounded number of rows: further owners are added up as owner '' of
-- account 'root'.
CREATE TABLE activity_buckets (
    width INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    queue TEXT NOT NULL,
    account TEXT NOT NULL,
    owner TEXT NOT NULL,
    running INTEGER NOT NULL, -- the sum over the samples of the bucket, as the eight columns below
    waiting INTEGER NOT NULL,
    millicpus INTEGER NOT NULL, -- requested by running jobs
    memory_mib INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    measured INTEGER NOT NULL, -- the running jobs whose use was measured; the two columns below are their use
    used_millicpus INTEGER NOT NULL,
    used_mib INTEGER NOT NULL,
    hourly_cost INTEGER NOT NULL, -- of running jobs, in billionths of the server's currency
    succeeded INTEGER NOT NULL, -- how many jobs ended
    failed INTEGER NOT NULL, -- by themselves
    stopped INTEGER NOT NULL, -- cancelled or terminated
    -- How many attempts began, by their wait: wait_0 below the first of WAIT_BOUNDS, wait_14 above the last one.
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

-- --------------------------------------------------------------------------------------------------------------- logs

-- One log stream for each container of an attempt.
CREATE TABLE log_streams (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE, -- AWS: DEFINITION/default/TASK
    created_at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    account TEXT NOT NULL,
    value TEXT NOT NULL -- JSON of LogStream without `name`
);
CREATE INDEX log_streams_by_age ON log_streams (created_at, name);
CREATE INDEX log_streams_by_owner ON log_streams (owner, name);
CREATE INDEX log_streams_by_account ON log_streams (account, name);
CREATE INDEX log_streams_by_owner_and_age ON log_streams (owner, created_at, name);
CREATE INDEX log_streams_by_account_and_age ON log_streams (account, created_at, name);

-- Logs of deleted jobs, whose files may still exist.
CREATE TABLE discarded_logs (
    log_id TEXT PRIMARY KEY -- the name of the log file
) WITHOUT ROWID;

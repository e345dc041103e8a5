-- Correction of stored times after the clock of the server was changed. Decision 0035.

-- clock_anchor
SELECT value FROM metadata WHERE name = 'clock';

-- put_clock_anchor
INSERT OR REPLACE INTO metadata (name, value) VALUES ('clock', :value);

-- jobs_with_deciding_times
-- Active jobs, blocked jobs, held jobs, and arrays with work left: their times decide what happens next, or since when
-- the job waits.
SELECT sequence FROM jobs WHERE status IN ('STARTING', 'RUNNING')
UNION SELECT sequence FROM jobs WHERE has_array_work = 1
UNION SELECT sequence FROM jobs WHERE status = 'RUNNABLE' AND instr(state, '"blocked_at"') > 0
UNION SELECT sequence FROM jobs WHERE passed_over = 2;

-- shift_job
UPDATE jobs SET state = :state, created_at = :created_at WHERE sequence = :sequence;

-- shift_finished_at
UPDATE jobs SET finished_at = finished_at + :by WHERE finished_at BETWEEN :since AND :until;

-- shift_submissions
UPDATE submissions SET at = at + :by WHERE at BETWEEN :since AND :until;

-- shift_consumable_resource_updates
UPDATE consumable_resource_updates SET at = at + :by WHERE at BETWEEN :since AND :until;

-- shift_audit_log
-- Rows from the journal have the machine's time, and stay.
UPDATE audit_log SET at = at + :by WHERE journal_entry IS NULL AND at BETWEEN :since AND :until;

-- share_usage
SELECT queue, share_identifier, value FROM share_usage;

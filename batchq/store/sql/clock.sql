-- anchor
SELECT value FROM meta WHERE name = 'clock';

-- put_anchor
INSERT OR REPLACE INTO meta (name, value) VALUES ('clock', :value);

-- shifted_jobs
-- The jobs whose times decide something: under way, blocked, or an array with work left.
SELECT ord FROM jobs WHERE status IN ('STARTING', 'RUNNING')
UNION SELECT ord FROM jobs WHERE at_work = 1
UNION SELECT ord FROM jobs WHERE status = 'RUNNABLE' AND instr(state, '"blocked_at"') > 0;

-- shift_job
UPDATE jobs SET state = :state, created_at = :created_at WHERE ord = :ord;

-- shift_finished
UPDATE jobs SET finished_at = finished_at + :by WHERE finished_at BETWEEN :since AND :until;

-- shift_submissions
UPDATE submissions SET at = at + :by WHERE at BETWEEN :since AND :until;

-- shift_consumable_updates
UPDATE consumable_updates SET at = at + :by WHERE at BETWEEN :since AND :until;

-- shift_acts
-- Those with a mark were stamped by commands, which take the machine's time as it is.
UPDATE acts SET at = at + :by WHERE mark IS NULL AND at BETWEEN :since AND :until;

-- shares
SELECT queue, share, value FROM shares;

-- queues
SELECT name, value FROM queues;

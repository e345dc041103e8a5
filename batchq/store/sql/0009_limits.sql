-- Limits of accounts: how many jobs of each wait, and who comes next when those of some accounts may not start.

-- What is read of a job that may start says whose it is.
DROP INDEX jobs_runnable;
CREATE INDEX jobs_runnable ON jobs (
    queue, ord, id, millicpus, memory_mib, gpus, needs, longest, share, rank, account, status, misfit
)
WHERE status = 'RUNNABLE' AND misfit = 0;
DROP INDEX jobs_runnable_in_share;
CREATE INDEX jobs_runnable_in_share ON jobs (
    queue, share, rank, ord, id, millicpus, memory_mib, gpus, needs, longest, account, status, misfit
)
WHERE status = 'RUNNABLE' AND misfit = 0 AND share IS NOT NULL;

-- From one account straight to the next, so that however many jobs one may not start are passed over.
CREATE INDEX jobs_runnable_of_account ON jobs (queue, account, ord, status, misfit)
WHERE status = 'RUNNABLE' AND misfit = 0;
CREATE INDEX jobs_runnable_of_account_in_share ON jobs (queue, share, account, rank, ord, status, misfit)
WHERE status = 'RUNNABLE' AND misfit = 0 AND share IS NOT NULL;

-- Few are, but for arrays: how many children they have yet to make is what their accounts have waiting.
CREATE INDEX jobs_pending ON jobs (account, array_size, ord, status) WHERE status IN ('SUBMITTED', 'PENDING');

"""The exit statuses of all commands: one table, which `batchq --help` and docs/command-line.md contain."""

DONE = 0
REFUSED = 1
MISUSED = 2
UNAVAILABLE = 3
TIMED_OUT = 124  # as timeout(1)
NO_EXIT_CODE = 125  # as docker run
INTERRUPTED = 130  # 128 and the number of SIGINT

EXIT_STATUSES = """\
exit status:
  0    done; cancel and terminate: also if no job matches, or a job has already finished
  1    refused or not found; of several jobs: not done for each, or not each SUCCEEDED
  2    invalid arguments; cancel and terminate: also a refused request; nothing is changed
  3    the server cannot be reached, or is unavailable
  124  a time limit has passed: --timeout, or the job's own
  125  the job has no exit code: it never started, or was stopped
  130  interrupted by Ctrl-C; the server completes a request that it has accepted
  run, and wait for one job: the exit code of the job"""

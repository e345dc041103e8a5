"""Bugs in the code that does what was decided: the calls of the engine, and the transactions of the store."""

EXECUTOR = [
    ("calls about one container cross", "async with ops.lock:", "async with asyncio.Lock():"),
    ("a call in progress is made again", "if type(effect) in ops.in_progress:", "if None:"),
    (
        "a start is made again before its end is saved",
        "ops.start_reported = ops.start_reported or events != ()\n",
        "pass\n",
    ),
    (
        "another attempt begins beside the one before",
        "await ops.start.wait_for(self._earlier_clean_ups(tag))\n",
        "pass\n",
    ),
    (
        "a stop signal without an answer is taken for one",
        "                await self._clock.sleep(SIGNAL_RETRY_INTERVAL)\n",
        "                return\n",
    ),
    (
        "a stop that finds nobody is the end of it",
        "            except ContainerGone:\n                self.inspect_again(tag)\n                return\n",
        "            except ContainerGone:\n                return\n",
    ),
    (
        "a delivered stop signal is not reported",
        "self._post_events(tag, (on.StopSignalDelivered(",
        "self._post_events(tag, () and (on.StopSignalDelivered(",
    ),
    ("a container goes before its log is kept", "if not await self._captured_and_removed(tag, job):", "if True:"),
    ("a look that came too early is the last", "while ops.must_inspect_again:", "if ops.must_inspect_again:"),
    (
        "a container on its way to its start is lost",
        "if not is_starting or (found is not None and found.stopped_at is not None):",
        "if True:",
    ),
    (
        "who is heard of is judged as if nothing were under way",
        "self._post_inspection(report.tag, report.found, self._ops.get(report.tag))",
        "self._post_inspection(report.tag, report.found, None)",
    ),
    (
        "an exit is reported without its start",
        "events[-1:] if is_known_to_run(tag, self._saved_job(tag.job_id)) else events",
        "events[-1:]",
    ),
    (
        "a running container is not reported",
        "if found is not None and found.state is ContainerState.RUNNING:",
        "if None:",
    ),
]

LAUNCH = [
    (
        "each try has another name",
        "        tag=tag,\n        spec=job",
        "        tag=type(tag)(job_id=job.id, attempt=__import__('random').randrange(100, 999)),\n        spec=job",
    ),
]

JOBS = [
    (
        "an update does not check the version",
        "written != len(jobs):",
        "written < 0:",
    ),
    ("searched columns are not updated", "if written < len(unmoved_rows):", "if written < 0:"),
    ("the version is not increased", "version=job.version + 1)", "version=job.version)"),
    (
        "no history is stored",
        '    execute_each(connection, SQL["insert_history"], own)\n',
        "",
    ),
    (
        "no submission is stored",
        "new = [_submission_row(*it, before=before) for it in changes.submissions]",
        "new: list[Row] = []",
    ),
    (
        "dependencies of a job that no longer waits are kept",
        'SQL["delete_dependency"], _dependency_rows(job for job in jobs if not waits(job))',
        'SQL["delete_dependency"], []',
    ),
    (
        "dependencies are not stored",
        '    execute_each(connection, SQL["insert_dependency"], _dependency_rows(job for job in jobs if waits(job)))\n',
        "",
    ),
]

TRANSACTION = [
    ("a failed transaction is committed", 'connection.execute("ROLLBACK")', 'connection.execute("COMMIT")'),
    ("a transaction is not committed", '        connection.execute("COMMIT")\n', "        pass\n"),
    ("a failed transaction stays open", '            connection.execute("ROLLBACK")\n', "            pass\n"),
]

DATABASE = [
    (
        "a read runs outside of a transaction",
        "return await _run(self._reader, partial(run_transaction, Begin.READING, work))",
        "return await _run(self._reader, work)",
    ),
    ("a removed database file is not detected", "if _identity(self._path) != self._file:", "if None:"),
    (
        "a conflict is reported as a disk failure",
        "raise Conflict(str(why)) from why",
        "raise StoreFailed(str(why)) from why",
    ),
]

OPENING = [
    ("a commit is not durable", "PRAGMA synchronous = FULL", "PRAGMA synchronous = OFF"),
    ("a reader may write", "PRAGMA query_only = ON", "PRAGMA query_only = OFF"),
]

DOING = {
    "batchq/engine/containers/executor.py": EXECUTOR,
    "batchq/engine/containers/start.py": LAUNCH,
    "batchq/store/job_writes.py": JOBS,
    "batchq/store/statements.py": TRANSACTION,
    "batchq/store/database.py": DATABASE,
    "batchq/store/integrity.py": OPENING,
}

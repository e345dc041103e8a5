"""Bugs somebody might write: what breaks, the text as it is, and the text with the bug. All in code that decides."""

from tests.domain.mutations_of_arrays import ARRAYS, OF_CHILDREN, OF_PARENTS
from tests.domain.mutations_of_doing import DOING
from tests.domain.mutations_of_parts import SEVERAL
from tests.domain.mutations_of_placing import PLACING
from tests.domain.mutations_of_sweeping import SWEEPING

LIFECYCLE = [
    (
        "news of an earlier attempt is believed",
        "(job.attempt is None or job.attempt.number != event.attempt)",
        "job.attempt is None",
    ),
    ("an alarm is overheard in the moment it is due", "due is None or due > now", "due is None or due >= now"),
    (
        "the timeout counts from the submission",
        "job.started_at + job.spec.timeout",
        "job.created_at + job.spec.timeout",
    ),
    (
        "a stop order does not put off the timeout",
        "    if job.stop is not None:\n        return job.stop.kill_at\n",
        "",
    ),
    ("every attempt is the first", "number=len(job.attempts) + 1", "number=1"),
    (
        "a new attempt shows the reason of the one before",
        "attempt=attempt, status_reason=None, blocked_at=None",
        "attempt=attempt, blocked_at=None",
    ),
    (
        "nobody knows when an attempt was placed",
        "environment=event.environment, placed_at=now",
        "environment=event.environment",
    ),
    (
        "a job starts before it was placed",
        "requested_at=attempt.placed_at, now=now)\n    attempt",
        "requested_at=None, now=now)\n    attempt",
    ),
    (
        "a job lasted from before it was placed",
        "run_times(event, requested_at=attempt.placed_at",
        "run_times(event, requested_at=None",
    ),
    (
        "a container that started in spite of an order gets no stop signal",
        "return running, () if job.stop is None else (do.StopContainer(tag=job.tag),)",
        "return running, ()",
    ),
    (
        "an abandoned start is not cleared away",
        "return abandon(job, now), (do.CleanUpContainer(tag=job.tag),)",
        "return abandon(job, now), ()",
    ),
    ("a success is out of memory", "if event.out_of_memory and event.exit_code != 0", "if event.out_of_memory"),
    ("a lost attempt ends before it began", "stopped_at=max(now, attempt.started_at or now)", "stopped_at=now"),
    ("the last terminate wins", "    if job.stop is not None:\n        return job, ()\n    ask =", "    ask ="),
    (
        "a start gets a stop signal and is not abandoned",
        "do.AbandonStart(tag=job.tag) if job.status is Status.STARTING else do.StopContainer(tag=job.tag)",
        "do.StopContainer(tag=job.tag)",
    ),
    (
        "a timeout beats terminate",
        "    if job.stop is not None:\n        return job, ()\n    return stop_order.time_out",
        "    return stop_order.time_out",
    ),
    ("the grace counts from the order", "kill_at=now + job.stop.grace", "kill_at=job.stop.ordered_at + job.stop.grace"),
    (
        "a second stop signal extends the grace period",
        "job.stop is None or job.stop.kill_at is not None",
        "job.stop is None",
    ),
    ("a container without a stop signal is killed", "job.stop is None or job.stop.kill_at is None", "job.stop is None"),
    ("a kill is not repeated", "kill_at=now + stop_order.KILL_AGAIN", "kill_at=None"),
    ("nobody is ever unkillable", "job.stop.killed_at or now", "now"),
    (
        "an unschedulable job no longer stays one",
        "unschedulable=False, status_reason=None, blocked_at=None",
        "status_reason=None, blocked_at=None",
    ),
    ("terminate of a job that is over is illegal", "    on.TerminateRequested: late,\n", ""),
    (
        "what is placed is blocked",
        "attempt=attempt, status_reason=None, blocked_at=None",
        "attempt=attempt, status_reason=None",
    ),
    (
        "what fits at last is blocked",
        "status_reason=None, blocked_at=None, promised_start=None), ()",
        "status_reason=None), ()",
    ),
    (
        "an unschedulable job found again counts anew",
        "blocked_at=(job.blocked_at if same else None) or now)",
        "blocked_at=now)",
    ),
    (
        "what is given up for waiting is no cancel",
        "move_to_final(replace(job, cancelled=reason), Status.FAILED, now, reason)",
        "move_to_final(job, Status.FAILED, now, reason)",
    ),
]
MOVES = [
    (
        "an abandoned start shows a remembered cancel",
        "    return move_to_final(replace(job, cancelled=None), Status.FAILED, now, job.stop.reason)",
        "    return move_to_final(job, Status.FAILED, now, job.stop.reason)",
    ),
    ("earlier attempts are forgotten", "attempts=(*job.attempts, ended)", "attempts=(ended,)"),
    (
        "a terminated attempt shows an ordinary end",
        "status_reason if job.stop is None else job.stop.reason",
        "status_reason",
    ),
    (
        "a success shows a cancel",
        "move_to_final(replace(over, cancelled=None), Status.SUCCEEDED",
        "move_to_final(over, Status.SUCCEEDED",
    ),
    (
        "a retry shows the end of the attempt before",
        "attempt=None, stopped_at=None, status_reason",
        "attempt=None, status_reason",
    ),
    (
        "terminate does not beat a remembered cancel",
        "return replace(job, cancelled=None), Status.FAILED",
        "return job, Status.FAILED",
    ),
    (
        "a remembered cancel does not say why",
        "job.cancelled if job.cancelled is not None else ended.status_reason",
        "ended.status_reason",
    ),
    ("the dead are misfits", "        unschedulable=False,\n        blocked_at", "        blocked_at"),
    ("the dead hold an attempt", "attempt=None,\n        unschedulable=False,\n", "unschedulable=False,\n"),
    ("a job that is over has no end", "job.stopped_at or max(now, job.started_at or now)", "job.stopped_at"),
    (
        "a job that succeeded may come back",
        "Status.SUCCEEDED: frozenset()",
        "Status.SUCCEEDED: frozenset({Status.FAILED})",
    ),
    ("the dead are blocked", "        blocked_at=None,\n", ""),
]
STOPPING = [
    ("a cancel is not remembered", "    return replace(job, cancelled=event.reason)\n", "    return job\n"),
    ("the last cancel wins", "if job.cancelled is not None or job.stop is not None:", "if job.stop is not None:"),
    (
        "a cancel is remembered after an order",
        "if job.cancelled is not None or job.stop is not None:",
        "if job.cancelled is not None:",
    ),
    ("a timeout is a terminate", "cause=StopCause.TIMED_OUT", "cause=StopCause.TERMINATED"),
    ("a grace of nothing is the job's own", "event.grace is None", "not event.grace"),
    ("a terminate may not bring its own grace", "if event.grace is None else event.grace", ""),
]
RETRY = [
    ("exit 0 saves a terminated job", "    if job.stop is not None:\n        return Verdict.FAIL\n", ""),
    ("a success is retried", "    if ended.exit_code == 0:\n        return Verdict.SUCCEED\n", ""),
    (
        "a remembered cancel fails a success",
        "    if ended.exit_code == 0:\n",
        "    if job.cancelled is not None:\n        return Verdict.FAIL\n    if ended.exit_code == 0:\n",
    ),
    ("a remembered cancel is retried", "job.cancelled is not None or ended.forbidden", "ended.forbidden"),
    ("what may not be is tried again", " or ended.forbidden", ""),
    ("a cancel without a reason is none", "job.cancelled is not None or", "job.cancelled or"),
    ("one attempt too many", "ended.number >= job.spec", "ended.number > job.spec"),
    (
        "what no rule matches is over",
        "if matches(rule, ended)), Action.RETRY)",
        "if matches(rule, ended)), Action.EXIT)",
    ),
    ("the last rule that matches decides", "for rule in rules if", "for rule in reversed(rules) if"),
    ("one condition that holds is enough", "        and _like(rule.on_reason", "        or _like(rule.on_reason"),
    ("the exit code is not compared", "_like(rule.on_exit_code, code)", "True"),
    ("a lone star does not match what is missing", 'pattern is None or pattern == "*"', "pattern is None"),
    ("a pattern matches in the middle", "text.startswith(pattern[:-1])", "pattern[:-1] in text"),
    ("a pattern without a star matches a beginning", "else text == pattern", "else text.startswith(pattern)"),
]
DEPENDENCIES = [
    (
        "a dependency nobody knows has succeeded",
        "return Status.FAILED if array is None or",
        "return Status.SUCCEEDED if array is None or",
    ),
    ("overrides may be a little longer", "> MAX_OVERRIDES_LENGTH", "> MAX_OVERRIDES_LENGTH + 1"),
    ("overrides may be a little shorter only", "> MAX_OVERRIDES_LENGTH", ">= MAX_OVERRIDES_LENGTH"),
    ("one tag more may be propagated", "> MAX_PROPAGATED_TAGS", "> MAX_PROPAGATED_TAGS + 1"),
    (
        "a failure waits for the others",
        "if failed is not None:",
        "if {status for _, status in standing} == {Status.FAILED}:",
    ),
    ("one success is enough", "if statuses - {Status.SUCCEEDED} else", "if Status.SUCCEEDED not in statuses else"),
]
RECOVERY = [
    ("what began after its host was up was lost with it", " or began >= before:", ":"),
    (
        "of several none is lost with the host",
        "container_of(job, tag.container_key).started_at if has_task(job)",
        "None if has_task(job)",
    ),
    (
        "an attempt that has ended is lost",
        "for tag in under_way if tag in expected and",
        "for tag in expected if",
    ),
    ("what was not there yet is lost", "if tag in expected and tag not in there]", "if tag not in there]"),
    ("nothing is ever lost", "if tag in expected and tag not in there]", "if False]"),
    ("strays are cleared away at once", "for tag in leftovers if tag.job_id in known)", "for tag in leftovers)"),
    ("leftovers are strays", "for tag in leftovers if tag.job_id not in known)", "for tag in leftovers)"),
    (
        "a start that is to stop is made",
        "(start, do.AbandonStart(tag=tag)) if standing.must_stop else (start,)",
        "(start,)",
    ),
    (
        "a start is forgotten in a crash",
        "if standing.must_stop else (start,)",
        "if standing.must_stop else ()",
    ),
    ("what died while we were away is not looked at", "if surveyed is not None and not surveyed.running:", "if False:"),
    ("a stop signal is not sent again", "if standing.must_stop and not standing.was_signalled else", "if False else"),
    (
        "a stop signal is sent again and again",
        "if standing.must_stop and not standing.was_signalled",
        "if standing.must_stop",
    ),
    (
        "what is kept for the next is a leftover",
        "if tag not in under_way and tag not in kept]",
        "if tag not in under_way]",
    ),
    (
        "the lost one of several has no name",
        "on.ContainerLost(attempt=tag.attempt, container_key=tag.container_key)",
        "on.ContainerLost(attempt=tag.attempt)",
    ),
    ("what runs is started again", "starts = container.state is AttemptContainerState.STARTING", "starts = True"),
]
HOST = [
    ("a success went down with its host", "host_lost and exit_code != 0", "host_lost"),
    ("what went down with its host exited by itself", "host_lost and exit_code != 0", "False"),
]

FORCING = [
    ("who is given up has no end", "stopped_at=stopped, status_reason=reason", "status_reason=reason"),
    ("who is given up shows a cancel", "        cancelled=None,\n", ""),
    ("who is given up ends before he began", "max(now, attempt.started_at or now)", "now"),
    ("what is kept of several stays", "*tags_to_keep(job)", "*()"),
    (
        "what is over of several ends again",
        "    if container.state is AttemptContainerState.ENDED:\n        return container\n",
        "",
    ),
    ("an order without effect is not reported", "None if job.stop is None else job.stop.reason", "None"),
]
STARTS = [
    (
        "what was made is not launched by its id",
        "replace(self._launch, container_id=container.container_id)",
        "self._launch",
    ),
    ("what was made is not saved", "        await self._save(event)\n", ""),
    (
        "a start given up while it is saved is made",
        "            return await self._abandon()\n        return await self._start()",
        "            pass\n        return await self._start()",
    ),
    (
        "what was made and is gone is made again",
        "return events_of_inspection(self._tag, None)",
        "return await self._abandon()",
    ),
]
SETTLING = [
    (
        "the dependents of dependents wait",
        "unit, store)\n\n\nasync def _count",
        "unit, store)\n        return\n\n\nasync def _count",
    ),
    ("dependents that are new are forgotten", "return [*in_unit, *next_children]", "return [*next_children]"),
]
READING = [
    ("one lost container changes nothing for others", "        if found.events:", "        if False:"),
    ("a timeout is ordered unseen", "            if tag is None:", "            if True:"),
    (
        "any running container counts as that of the job",
        "if tag == message.running_container:",
        "if message.running_container is not None:",
    ),
    (
        "the engine's clock delays every timeout",
        "if self._state.clock_since is None or ours >= self._state.clock_since:",
        "if False:",
    ),
    ("the engine's clock is ignored", "unit.now - max(excess, timedelta())", "unit.now"),
    ("what runs on another engine is lost", "        if not self._state.engine_check.accepted:", "        if False:"),
]
TURN = [
    ("a saved job keeps its version", "version=job.version + 1", "version=job.version"),
    ("what ended in this unit holds room", "if job_id not in changed}", "}"),
    ("what began in this unit holds no room", "if job.status in ACTIVE}", "if job_id in self._active}"),
    ("what comes to run has no log", "for tag in came_to_run(before, after):", "for tag in ():"),
    (
        "a cancel at the head of a queue frees nobody",
        "elif Status.RUNNABLE in (after.status, before and before.status):",
        "elif after.status is Status.RUNNABLE:",
    ),
    ("old submissions are never forgotten", "forget_before if self.submitted else None", "None"),
]
ALARMS = [
    ("an alarm taken off rings", "if self._due.get(job_id) == due:", "if True:"),
    ("an alarm put off rings", "if self._due.get(job_id) == due:", "if job_id in self._due:"),
    ("an earlier timer does not wake the loop", "            self._added.set()\n", ""),
]
STRAYS = [
    ("three strays are too many", "len(seen) > MAX_ORPHANS", "len(seen) >= MAX_ORPHANS"),
    (
        "one that came back is not watched anew",
        "self._since.get(tag, now) for tag in seen}",
        "now for tag in seen} | self._since",
    ),
]
MOMENTS = [
    (
        "a start in the future is believed",
        "return min(reported + clock_step_back(reported, requested_at, now), now)",
        "return reported",
    ),
    (
        "a start before its request is believed",
        "min(reported + clock_step_back(reported, requested_at, now), now)",
        "min(reported, now)",
    ),
    ("one ends before it began", "max(reported.stopped_at, reported.started_at)", "reported.stopped_at"),
    ("one lasts longer when the clock was set back", "reported.started_at) + set_back", "reported.started_at)"),
    ("a clock that was set ahead moves what was", "max(requested_at - reported, NOTHING)", "requested_at - reported"),
    ("our own clock set back is the engine's", "requested_at is None or requested_at > now", "requested_at is None"),
]
MUTATIONS = {
    "batchq/domain/lifecycle/transitions.py": LIFECYCLE,
    "batchq/domain/lifecycle/status.py": [*MOVES, *MOMENTS, *RETRY],
    "batchq/domain/lifecycle/stop_order.py": STOPPING,
    "batchq/domain/lifecycle/force_fail.py": FORCING,
    **ARRAYS,
    **SEVERAL,
    "batchq/domain/scheduling/dependencies.py": [*DEPENDENCIES, *OF_CHILDREN],
    "batchq/domain/status_reasons.py": HOST,
    "batchq/domain/lifecycle/reconcile.py": RECOVERY,
    **PLACING,
    **SWEEPING,
    **DOING,
    "batchq/engine/containers/start.py": STARTS,
    "batchq/engine/dependents.py": [*SETTLING, *OF_PARENTS],
    "batchq/engine/handlers.py": READING,
    "batchq/engine/unit_of_work.py": TURN,
    "batchq/engine/timers.py": ALARMS,
    "batchq/engine/orphan_containers.py": STRAYS,
}

"""The bugs of `mutations` that are in placing: who goes first, what is free, who may pass whom."""

PLACEMENT = [
    ("who waits keeps nothing", "            self._reserve(job, self._able(job, names))\n", "            pass\n"),
    ("what is placed takes no room", "                self._take(wanted, until)\n", ""),
    ("what runs holds no room", "self._add_ending(self._returning(held.sums), until=None)", "pass"),
    (
        "only what fits on the first environment is set aside",
        "for wanted in able.values() for",
        "for wanted in [*able.values()][:1] for",
    ),
    (
        "what is set aside is forgotten by the next",
        "self._asides.add(Reservation(",
        "self._asides = Reservations(); self._asides.add(Reservation(",
    ),
    ("disabled environments are used", " and self.environments[it].state is State.ENABLED", ""),
    ("what could never fit waits for ever", "if within(amounts, self._most)}", "}"),
    ("the largest of the queue's environments does not count", "most = max(", "most = min("),
    (
        "too much memory is reported as vCPUs",
        "if job.resources.millicpus > most:",
        "if job.resources.millicpus >= most:",
    ),
    ("a machine keeps nothing for itself", "min(machine.memory_mib // 10, 2048)", "0"),
    (
        "a promise is put off",
        "known = (latest_start(list(able.values()), there, self._all_endings()), self._promised.get(job.job_id))",
        "known = (latest_start(list(able.values()), there, self._all_endings()),)",
    ),
    (
        "a deleted environment's jobs stop the scheduler",
        "            if of in self._free:  # a deleted environment's last jobs may still run\n    ",
        "",
    ),
    ("what is used up can be had again", "            self._most[of] -= wanted[of]\n", ""),
    ("what is used up counts twice", "if of not in self._used_up}", "}"),
    (
        "what runs counts for no limit of its account",
        "wanted = self._demand(candidate(job), EnvironmentName(job.attempt.environment))",
        "wanted = demand(job.spec.resources, job.spec.needs, EnvironmentName(job.attempt.environment))",
    ),
    ("what is kept of a limit is taken by others of the account", "millicpus > there[vcpus_of(it)]", "millicpus > 0"),
    ("nothing is ever closed", "return there[MEMORY] <= 0 or", "return False and"),
]
BACKFILL = [
    ("the grace of what runs is forgotten", "+ job.spec.timeout + _grace(job)", "+ job.spec.timeout"),
    ("what has not started yet is nearly over", "return latest_end_if_placed(job.spec.timeout, now)", "return now"),
    ("a start takes no time", "now + START_ALLOWANCE + longest", "now + longest"),
    ("an end takes no time", "longest + STOP_ALLOWANCE", "longest"),
    ("one that ends too late passes", "bisect_right(self._known, until, key=_start)", "0"),
    ("one that never ends passes", "len(self._known) if until is None else", "0 if until is None else"),
    (
        "an unknown start is one at the end of days",
        "kept = self._of_unknown | self._reserved",
        "kept = dict(self._reserved)",
    ),
    (
        "short jobs take an account's limit from its head",
        "kept = self._of_unknown | self._reserved",
        "kept = dict(self._of_unknown)",
    ),
    (
        "the one that starts last is kept from first",
        "in self._known[: count - self._unknown]",
        "in self._known[self._unknown - count :]",
    ),
    (
        "the last to end decides",
        "sorted(endings, key=lambda it: it.at)",
        "sorted(endings, key=lambda it: it.at, reverse=True)",
    ),
    ("every environment must have room", "if any(within(each, there)", "if all(within(each, there)"),
]
AMOUNTS = [
    (
        "what is wanted twice is taken once",
        "wanted[of] = wanted.get(of, 0) + need.quantity",
        "wanted[of] = need.quantity",
    ),
    ("what fits exactly does not fit", "if amount > there.get(of, 0)]\n", "if amount >= there.get(of, 0)]\n"),
    ("what is used up is still there", "max(0, resource.total - used_up)", "resource.total"),
    (
        "a second attempt uses nothing up",
        "return after.spec.needs if after.attempt.number != under_way else ()",
        "return after.spec.needs if under_way is None else ()",
    ),
    ("every change of a job uses up again", "if after.attempt.number != under_way else ()", ""),
]
FAIRSHARE = [
    ("what is used never decays", "kept = math.exp(-passed)", "kept = 1.0"),
    ("what is held is not used", "use.used * kept + held * (1 - kept)", "use.used * kept"),
    (
        "weights are upside down",
        "self._each * self._weights[share], share))",
        "self._each / self._weights[share], share))",
    ),
    ("what a unit places counts for the next only", "weighted + millicpus *", "weighted + 0 *"),
    (
        "children of arrays are jobs of their own",
        "0 if after.child is not None else _active_count(after)",
        "_active_count(after)",
    ),
    (
        "what is held is accrued after it has changed",
        "use = changed.get(key) or accrued(",
        "use = changed.get(key) or (lambda it, *_: it)(",
    ),
    ("a reservation does not shrink", "** active", "** min(active, 1)"),
    ("one share too many", "len(newer) < MAX_SHARES", "len(newer) <= MAX_SHARES"),
    ("a share that is over counts as active", "key.queue == queue and use.active > 0", "key.queue == queue"),
]
SCHEDULING = [
    (
        "those behind one at a limit slip past it",
        "            self.closed_accounts.close(account)\n            self.at_limit",
        "            self.at_limit",
    ),
    ("the youngest start first", "line = min(ready, key=_next_order)", "line = max(ready, key=_next_order)"),
    ("lower priorities go first", "(-it.priority, it.name)", "(it.priority, it.name)"),
    (
        "an unschedulable job of a deleted queue stops everybody",
        "catalog.queues.get(job.spec.queue)",
        "catalog.queues[job.spec.queue]",
    ),
    (
        "everybody who waits is a head",
        "self.capacity.place_or_reserve if cursor.head is None else",
        "self.capacity.place_or_reserve if True else",
    ),
    ("no job behind a head is examined", "if cursor.tried <= MAX_TRIED and cursor", "if False and cursor"),
    ("everybody behind a head is looked at", "cursor.tried <= MAX_TRIED and cursor.read", "cursor.read"),
    ("a reservation keeps the first from starting", "self.held == 0 or", ""),
    ("a reservation is not kept within a unit", "cursor.reservation.held += job.resources.millicpus", "pass"),
    ("a disabled environment counts for a reservation", " and it.state is State.ENABLED", ""),
]
LINES = [
    (
        "the second page is the first",
        "self._last, self._limit = page[-1], PAGE",
        "self._last, self._limit = page[0], PAGE",
    ),
    (
        "what this unit has changed is offered as it was",
        "return not self._unit.touched(other.job_id) and not",
        "return not",
    ),
    ("a line of many who may not start has no end", "while self._passed < MOST_PASSED:", "while True:"),
    ("what this unit has changed is offered last", "self._rank(self._mine[-1]) < self._rank(other)):", "False):"),
    ("the lowest priority of a share goes first", "return -it.priority, it.order", "return it.priority, it.order"),
]
AHEAD = [
    ("who goes stays in front", "elif known is not None and not waits:", "elif False:"),
    ("who comes is not seen", "if waits and known is None:", "if False:"),
    ("what was cut off is taken for known", "        self.until = self._candidates[-1].order\n", ""),
    (
        "a job is remembered as it was read",
        "            self.cached_jobs.pop(job.id, None)\n            front",
        "            front",
    ),
    ("one whose record was damaged is remembered", " and not is_damaged(job)", ""),
]
HEADS = [
    ("an old head keeps its mark", "            if _is_marked(unit.get(job_id)):\n", "            if False:\n"),
    (
        "an unschedulable job that was a head is freed",
        " and not job.unschedulable and job.blocked_at",
        " and job.blocked_at",
    ),
]
OUTLOOK = [
    ("a head that goes leaves the line as it is", "order <= self._full_queues.get", "order < self._full_queues.get"),
    (
        "what was full stays full",
        "            self._full_queues = self._staged.full_queues\n",
        "            self._full_queues |= self._staged.full_queues\n",
    ),
    ("who comes to wait is not offered", " and not any(is_queued_for_placement(after) for _, after in changes)", ""),
    (
        "a queue counts as empty although a job was skipped",
        " if all(committed.unit.touched(it.job_id) for it in line)",
        "",
    ),
    (
        "where nobody stood nobody ever stands",
        "self.empty_queues -= {after.spec.queue for _, after in committed.changes if is_queued_for_placement(after)}",
        "pass",
    ),
]
TALLY = [
    ("who comes to wait for another is not counted", "        if after.spec.depends_on:\n", "        if before:\n"),
    ("who waits for others is forgotten by a restart", "= await store.waiting_for_others()", "= 0"),
]
LIMITS = [
    ("who is not due is cancelled", " or due > unit.now:", ":"),
    ("another reason counts as well", "if status_reasons.code(it.reason) == status_reasons.code(reason)]", "]"),
    ("the longest limit counts", "return since + min(limits)", "return since + max(limits)"),
    ("only a page of misfits is looked through", "if len(page) == PAGE:", "if False:"),
    ("a later head has no time of its own", "if marks is not self._marks:", "if self._marks is None:"),
    ("heads do not hear of other limits", "        self._marks = None\n\n    async", "        pass\n\n    async"),
]
LEDGER = [
    (
        "what this unit has changed is not charged before the next",
        "if changes is NOTHING_CHANGED:",
        "if changes is not None:",
    ),
]
PLACING = {
    "batchq/domain/scheduling/capacity.py": PLACEMENT,
    "batchq/domain/scheduling/backfill.py": BACKFILL,
    "batchq/domain/scheduling/resources.py": AMOUNTS,
    "batchq/domain/scheduling/fairshare.py": FAIRSHARE,
    "batchq/engine/scheduling/placement_pass.py": SCHEDULING,
    "batchq/engine/scheduling/queue_reader.py": LINES,
    "batchq/engine/scheduling/queue_cache.py": AHEAD,
    "batchq/engine/scheduling/blocked.py": HEADS,
    "batchq/engine/scheduling/time_limits.py": LIMITS,
    "batchq/engine/scheduling/share_usage.py": LEDGER,
    "batchq/engine/scheduling/skip_pass.py": OUTLOOK,
    "batchq/engine/scheduling/admission.py": TALLY,
}

"""Bugs somebody might write about arrays and their children: `mutations` has the rest."""

ARRAYS = {
    "batchq/domain/lifecycle/arrays.py": [
        (
            "an array with children is RUNNABLE",
            "job if job.status is Status.PENDING else move_to(job, Status.PENDING)",
            "job",
        ),
        (
            "one child is never spawned",
            "and job.array_state.spawned < size(job)\n",
            "and job.array_state.spawned < size(job) - 1\n",
        ),
        (
            "an order is applied to one child less",
            "order(job) is not None and job.array_state.order_applied_to < size(job)",
            "order(job) is not None and job.array_state.order_applied_to < size(job) - 1",
        ),
        (
            "a cancel hides a terminate",
            "    if job.stop is not None:\n        return on.Terminate",
            "    if job.stop is not None and job.cancelled is None:\n        return on.Terminate",
        ),
        ("a child has its array's place", "order=job.order + 1 + index", "order=job.order"),
        (
            "more are spawned than there are",
            "min(state.spawned + most, size(job))",
            "state.spawned + most",
        ),
        (
            "an order is applied to children not spawned yet",
            "min(state.order_applied_to + most, state.spawned)",
            "min(state.order_applied_to + most, size(job))",
        ),
        ("who has moved is counted twice", "            counts[move.before] -= 1\n", "            pass\n"),
        (
            "a failed child breaks any array",
            "move.after is Status.FAILED and job.spec.sequential",
            "move.after is Status.FAILED",
        ),
        (
            "an array is over when all are spawned",
            "== size(job)\n    return _finish",
            "== state.spawned\n    return _finish",
        ),
        (
            "an array is over with its first failure",
            "    over = sum(counts[status] for status in FINISHED) == size(job)",
            "    over = counts[Status.FAILED] > 0 or sum(counts[status] for status in FINISHED) == size(job)",
        ),
        (
            "an array is over when all have succeeded",
            "sum(counts[status] for status in FINISHED)",
            "counts[Status.SUCCEEDED]",
        ),
        (
            "a later failure hides an earlier one",
            "state.failed_index is not None and state.failed_index <= index",
            "state.failed_index is not None",
        ),
        (
            "the latest failure counts",
            "    if state.failed_index is not None and state.failed_index <= index:\n        return state\n",
            "",
        ),
        (
            "a failure is applied in place of an order",
            "    if job.stop is not None or job.cancelled is not None:\n        return state\n",
            "",
        ),
        ("a failure is applied to the failed child itself", "order_applied_to=index + 1)", "order_applied_to=index)"),
        ("a failure is not applied to the next child", "order_applied_to=index + 1)", "order_applied_to=index + 2)"),
        (
            "an array succeeds in spite of a failure",
            "status_reasons.CHILD_FAILED)\n        if failed\n        else",
            "status_reasons.CHILD_FAILED) if not failed else",
        ),
        (
            "a terminated array shows a cancel",
            "return move_to_final(replace(job, cancelled=None), Status.FAILED, now, job.stop.reason)",
            "return move_to_final(job, Status.FAILED, now, job.stop.reason)",
        ),
        (
            "a cancelled array whose children succeed has succeeded",
            "if job.cancelled is not None:\n        return move_to_final(job",
            "if job.cancelled is not None and failed:\n        return move_to_final(job",
        ),
        (
            "a cancel after a terminate is applied",
            "if job.cancelled is not None or job.stop is not None:\n        return job\n    return",
            "if job.cancelled is not None:\n        return job\n    return",
        ),
        (
            "a cancel is applied only to children spawned after it",
            "return _tell_all(replace(job, cancelled=event.reason), now)",
            "return replace(job, cancelled=event.reason)",
        ),
        (
            "a terminate is applied only to children without the cancel",
            "return _tell_all(stop_order.order_stop(job, event, now), now)",
            "return stop_order.order_stop(job, event, now)",
        ),
        (
            "a second terminate is the one that counts",
            "if job.stop is not None or _state_of(job).ended_at is not None:",
            "if _state_of(job).ended_at is not None:",
        ),
        (
            "an array that is over can be terminated",
            "if job.stop is not None or _state_of(job).ended_at is not None:",
            "if job.stop is not None:",
        ),
        (
            "an array is over while a child runs",
            " or any(counts.get(status) for status in ACTIVE):",
            ":",
        ),
        (
            "an array is over before all its children are there",
            "state.ordered_at is None or spawning(job) or any",
            "state.ordered_at is None or any",
        ),
        (
            "an array without an order ends when no child runs",
            "state.ordered_at is None or spawning(job) or any",
            "spawning(job) or any",
        ),
        (
            "an array that is over is counted on",
            "return replace(job, array_state=replace(state, counted_at=state.ended_at))",
            "return job",
        ),
        (
            "an array ends with its last row",
            "_finish(after, _state_of(after).ended_at or now,",
            "_finish(after, now,",
        ),
        (
            "to who waits the last order counts",
            "if child.status in QUEUED and job.cancelled is not None:",
            "if child.status in QUEUED and job.cancelled is not None and job.stop is None:",
        ),
        (
            "to who runs the first order counts",
            "if child.status in QUEUED and job.cancelled is not None:",
            "if job.cancelled is not None:",
        ),
        (
            "an earlier failure is applied to a child that may run",
            "if isinstance(ordered, on.DependencyFailed) and may_run else ordered",
            "if False else ordered",
        ),
        (
            "who waits does not count as FAILED",
            "counts[Status.FAILED] += counts.pop(status, 0)",
            "counts.pop(status, 0)",
        ),
    ],
    "batchq/domain/lifecycle/array_view.py": [
        ("a child ends when the order reaches it", "else max(ordered_at, child.created_at)", "else now"),
        ("a child ended before it was born", "else max(ordered_at, child.created_at)", "else ordered_at"),
        ("a running child is ordered at the time of its array", " or child.status not in QUEUED else", " else"),
        ("who runs is shown as over", "parent is None or job.status not in QUEUED else", "parent is None else"),
        (
            "an array under order is over",
            "for it in self.parents.values() if _ended_at(it) is not None)",
            "for it in self.parents.values())",
        ),
        ("an array is shown as it is stored", "else arrays.foreseen(job, _ended_at(known))", "else job"),
        (
            "an array is shown further than lists have it",
            "arrays.foreseen(job, _ended_at(known))",
            "arrays.foreseen(job, _ended_at(job))",
        ),
    ],
    "batchq/engine/unit_of_work.py": [
        (
            "a child need not hear its array first",
            "        job = self.hear(job_id)\n        if job",
            "        job = self.get(job_id)\n        if job",
        ),
        (
            "the caller counts as the author of the array's order",
            "caller, self.caller = self.caller, None",
            "caller = self.caller",
        ),
        ("history tells when a row was written", "at = _came(before, after) or self.now", "at = self.now"),
    ],
    "batchq/engine/arrays.py": [
        ("after a restart an array is forgotten", "{job.id: job for job in await store.arrays_with_work()}", "{}"),
        ("children of an array under order may start", "if arrays.order(job) is not None]\n", "if False]\n"),
        (
            "an order of this very unit is not known",
            "ids = {*self._unfinished, *[job.id for job in unit.changed_arrays()]}",
            "ids = {*self._unfinished}",
        ),
        (
            "what was decided is not known",
            "            return\n        self._pending_orders = None\n",
            "            return\n",
        ),
        ("a unit does as much for each array", "left -= spawned + await", "spawned += await"),
        ("the younger array comes first", "key=lambda it: it.order)", "key=lambda it: -it.order)"),
        (
            "children forget who is not in memory",
            "    unit.load(await store.children(parent_id, indices.start, len(indices)))\n",
            "",
        ),
    ],
}

OF_CHILDREN = [
    (
        "a child does not wait for its counterpart",
        "return Status.PENDING if counterpart is None else counterpart.status",
        "return Status.SUCCEEDED",
    ),
    (
        "an array need not wait for its counterpart's children",
        "    if array.array_state is not None:\n        return Status.SUCC",
        "    if array.array_state is not None or array.status not in FINISHED:\n        return Status.SUCC",
    ),
    (
        "an array waits for its counterpart's end",
        "    if array.array_state is not None:\n        return Status.SUCCEEDED\n",
        "    if array.status is Status.SUCCEEDED:\n        return Status.SUCCEEDED\n",
    ),
    (
        "a child that will never come is waited for",
        "return Status.FAILED if array is None or array.status in FINISHED else Status.PENDING\n\n\ndef _before",
        "return Status.FAILED if array is None else Status.PENDING\n\n\ndef _before",
    ),
    (
        "children of a sequential array come at once",
        "if job.child is None or job.child.index == 0 or not job.spec.sequential",
        "if True",
    ),
    (
        "the first child of a sequential array waits",
        "job.child is None or job.child.index == 0 or",
        "job.child is None or",
    ),
    (
        "a child is judged by the one before it",
        "{Status.SUCCEEDED if before in known and known[before].status is Status.SUCCEEDED else Status.PENDING}",
        "{known[before].status if before in known else Status.PENDING}",
    ),
    (
        "a dependent of a child does not see its array",
        "return (dependency.job_id,) if parent is None else (dependency.job_id, parent[0])",
        "return (dependency.job_id,)",
    ),
    (
        "a child waits for what its array waited for",
        "return Status.SUCCEEDED if job.child is not None else _named",
        "return _named",
    ),
    (
        "arrays of two sizes are counterparts",
        "if array_size is None or other != array_size:",
        "if array_size is None or other is None:",
    ),
    (
        "a child beyond its array may be waited for",
        "parent[1] < array.spec.array_size and job_id",
        "parent[1] <= array.spec.array_size and job_id",
    ),
]

OF_PARENTS = [
    ("the next child is not called", "    return (child_id(job.child.parent, job.child.index + 1),)", "    return ()"),
]

"""The bugs of `mutations` that are in attempts of several containers: gates, consequences, news, deadlines."""

PARTS = [
    (
        "one starts before it was asked to",
        "began(event.started_at, asked=part.begun_at",
        "began(event.started_at, asked=None",
    ),
    ("an address is not kept", "started_at=started, address=event.address)", "started_at=started)"),
    (
        "a second look forgets the address",
        "return job if part.address is not None else put",
        "return put",
    ),
    (
        "the job runs from its last container's start",
        "    if runs.status is Status.RUNNING:\n        return runs\n",
        "    runs = replace(runs, status=Status.STARTING)\n",
    ),
    ("a start that failed may have code 0", "exit_code=event.exit_code or None)", "exit_code=event.exit_code)"),
    ("one that succeeds is out of memory", "if event.out_of_memory and event.exit_code != 0", "if event.out_of_memory"),
    ("one lasted from before it was asked to", "lasted(event, asked=part.begun_at", "lasted(event, asked=None"),
    ("a lost one ends before it began", "max(now, part.started_at or now)", "now"),
    ("one asked twice has a longer grace", "part.grace is None or part.kill_at is not None", "part.grace is None"),
    ("one that was not asked is killed", "    if part.kill_at is None:\n        return job\n", ""),
    ("a kill of one is not repeated", "kill_at=now + stop_order.KILL_AGAIN", "kill_at=None"),
    ("one that is deaf never says so", "part.killed_at or now", "now"),
    (
        "who waited in vain waits on",
        "return ended(it, now, _too_late(part, waiting[it.key].condition, limit))",
        "return it",
    ),
    (
        "a start timeout closes every node",
        "if it.node == part.node else it\n\n    return",
        "if True else it\n\n    return",
    ),
    ("a helper that gave up decides before the app", "(*essential, *given_up)[0]", "given_up[0]"),
    (
        "a start timeout of another node decides",
        "if node != container_gates.main_node(job) or attempt.decided",
        "if attempt.decided",
    ),
    (
        "a timeout reaches what is decided",
        "if job.stop is not None or attempt_of(job).decided is not None else",
        "if job.stop is not None else",
    ),
    (
        "a timeout beats a terminate of the task",
        "return job if job.stop is not None or attempt",
        "return job if attempt",
    ),
    (
        "a later terminate of the task wins",
        "    if job.stop is not None:\n        return job\n    if event.node is None",
        "    if event.node is None",
    ),
    (
        "the main node is a node like others",
        "if event.node is None or event.node == container_gates.main_node(job):",
        "if event.node is None:",
    ),
    (
        "a node takes the job with it",
        "told_to_end(job, it, now, event) if it.node == event.node else it",
        "told_to_end(job, it, now, event)",
    ),
    (
        "the job is over with its first container",
        "over = all(it.state is PartState.ENDED",
        "over = any(it.state is PartState.ENDED",
    ),
    (
        "nothing ran, and an attempt was used",
        "    if decider is None and attempt.started_at is None:\n        return abandon(job, now)\n",
        "",
    ),
    (
        "a helper ran, and no attempt was used",
        "if decider is None and attempt.started_at is None:",
        "if decider is None:",
    ),
    (
        "the times of a gang are those of all",
        "main = [it for it in attempt.parts if it.node == container_gates.main_node(job)]",
        "main = list(attempt.parts)",
    ),
    (
        "a lost one has exited",
        "decider.started_at is not None and decider.exit_code is None:",
        "False:",
    ),
    ("of several none went down with its host", "host_lost=event.host_lost", "host_lost=False"),
    (
        "what could not start has exited",
        "status_reasons.NOT_STARTED if decider.started_at is None else exited",
        "exited",
    ),
    (
        "what starts must be found",
        "        return _tags(job, frozenset({PartState.RUNNING}))",
        "        return _tags(job, container_gates.BEGUN)",
    ),
    (
        "a helper is looked at before a timeout",
        "return part.node != main, not container_gates.container_of(job, part).essential",
        "return part.node != main, container_gates.container_of(job, part).essential",
    ),
    ("another node is looked at before a timeout", "return part.node != main, not", "return part.node == main, not"),
    ("what is kept for the next is cleared away", "for key in there if key not in gone)", "for key in there if False)"),
    ("the second container has no log", "    if not has_parts(before):\n        ran", "    if True:\n        ran"),
    ("late news of one that is over is illegal", "    PartState.ENDED: _OVER,", "    PartState.ENDED: {},"),
]
CONSEQUENCES = [
    (
        "the last essential one decides",
        "if attempt.decided is not None or decider is None:",
        "if decider is None:",
    ),
    ("who can never start waits for ever", "_give_up(_close(_decide(job), now), now)", "_close(_decide(job), now)"),
    ("the others go on", "_give_up(_close(_decide(job), now), now)", "_give_up(_decide(job), now)"),
    (
        "who starts is asked before it is clear",
        "_give_up(_close(_decide(job), now), now)",
        "_give_up(_close(_open(_decide(job), now), now), now)",
    ),
    (
        "an end is told again",
        "    if part.state is PartState.ENDED or part.stopping:",
        "    if part.state is PartState.ENDED:",
    ),
    (
        "the job's grace beats the container's",
        "        container_gates.container_of(job, part).stop_timeout,\n        job.spec.stop_grace,",
        "        job.spec.stop_grace,",
    ),
    ("a terminate may not bring a grace to parts", "        None if own is None else own.grace,\n", ""),
    ("a terminated node does not say why", "None if own is None or own.node is None else own.reason", "None"),
    (
        "a terminated job writes its reason on every container",
        "None if own is None or own.node is None else",
        "None if own is None else",
    ),
    (
        "a start is not given up",
        "if new.state is PartState.STARTING and new.stopping and not old.stopping:",
        "if False:",
    ),
    (
        "one that started all the same is not asked",
        "new.stopping and (old.state is not new.state or not old.stopping):",
        "new.stopping and not old.stopping:",
    ),
    (
        "one is asked again and again",
        "new.stopping and (old.state is not new.state or not old.stopping):",
        "new.stopping:",
    ),
    (
        "one that was over before its start was answered may start again",
        "if new.state is PartState.ENDED and old.state is PartState.STARTING and new.started_at is not None:",
        "if False:",
    ),
    (
        "a volume goes before the next has read it",
        "    if any(it.state in container_gates.YET_TO_COME for it in parts):\n        return ()\n",
        "",
    ),
    ("what never began is cleared away", "PartState.ENDED and it.begun_at is not None)", "PartState.ENDED)"),
    ("what was cleared away is cleared away again", "        if key not in gone:\n", "        if True:\n"),
]
GATES = [
    ("nodes start with the main one", "(main_found or part.node == main_node(job))", "True"),
    ("nodes start though the main one has no address yet", "and container_of(job, part).essential)", ")"),
    ("one condition is enough", "if found <= {Gate.OPEN} and", "if (not found or Gate.OPEN in found) and"),
    ("what can never be waits", "    if Gate.NEVER in found:\n        return Gate.NEVER\n", ""),
    (
        "who ended has never started",
        "Condition.START: part.started_at is not None",
        "Condition.START: part.state is PartState.RUNNING",
    ),
    ("a failure completes nothing", "Condition.COMPLETE: over,", "Condition.COMPLETE: over and part.exit_code == 0,"),
    ("any end is a success", "Condition.SUCCESS: over and part.exit_code == 0", "Condition.SUCCESS: over"),
    (
        "a helper closes its node",
        "it.state is PartState.ENDED and container_of(job, it).essential}",
        "it.state is PartState.ENDED}",
    ),
    (
        "the main node's end is its own",
        "everything = job.stop is not None or main_node(job) in over",
        "everything = job.stop is not None",
    ),
    (
        "an order is for who waits not",
        "everything = job.stop is not None or main_node(job) in over",
        "everything = main_node(job) in over",
    ),
    ("every node decides", "return over and part.node == main_node(job) and", "return over and"),
    ("a helper decides", " and container_of(job, part).essential\n\n\ndef waiting_for", "\n\n\ndef waiting_for"),
    (
        "what was given up decides",
        "over = part.state is PartState.ENDED and failed_or_ran",
        "over = part.state is PartState.ENDED",
    ),
    ("node 0 leads", "    return 0 if job.spec.nodes is None else job.spec.nodes.main", "    return 0"),
    (
        "the nodes come in their order",
        "nodes = (main, *(node for node in others if node != main))",
        "nodes = tuple(others)",
    ),
    ("who waits for another is waited for", "if dependency.container == part.name and _condition", "if _condition"),
    ("on all nodes they wait for one", "PartState.WAITING and other.node == part.node:", "PartState.WAITING:"),
]
DEADLINES = [
    ("an alarm of several is overheard in the moment it is due", "if it[0] <= now]", "if it[0] < now]"),
    (
        "the last deadline rings first",
        "sorted(found, key=lambda it: it[0])",
        "sorted(found, key=lambda it: it[0], reverse=True)",
    ),
    ("what is decided times out", " and attempt.decided is None:", ":"),
    ("what is to stop times out", "is not None and job.stop is None and attempt", "is not None and attempt"),
    ("who nobody waits for has a time to start in", " and part.key in needed:", ":"),
    ("what is over is killed", "        if part.state not in BEGUN:\n            continue\n", ""),
]
SEVERAL = {
    "batchq/domain/lifecycle/containers.py": PARTS,
    "batchq/domain/lifecycle/container_rules.py": CONSEQUENCES,
    "batchq/domain/lifecycle/container_gates.py": GATES,
    "batchq/domain/lifecycle/deadlines.py": DEADLINES,
}

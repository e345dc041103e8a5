"""The bugs of `mutations` that are in attempts of several containers: gates, consequences, news, deadlines."""

PARTS = [
    (
        "a container starts before its request",
        "start_time(event.started_at, requested_at=container.start_requested_at",
        "start_time(event.started_at, requested_at=None",
    ),
    ("an address is not kept", "started_at=started, address=event.address)", "started_at=started)"),
    (
        "a second look forgets the address",
        "return job if container.address is not None else with_container",
        "return with_container",
    ),
    (
        "the job runs from its last container's start",
        "    if runs.status is Status.RUNNING:\n        return runs\n",
        "    runs = replace(runs, status=Status.STARTING)\n",
    ),
    ("a start that failed may have code 0", "exit_code=event.exit_code or None)", "exit_code=event.exit_code)"),
    ("one that succeeds is out of memory", "if event.out_of_memory and event.exit_code != 0", "if event.out_of_memory"),
    (
        "a container ran from before its request",
        "run_times(event, requested_at=container.start_requested_at",
        "run_times(event, requested_at=None",
    ),
    ("a lost one ends before it began", "max(now, container.started_at or now)", "now"),
    (
        "a second stop signal extends the grace period",
        "container.grace is None or container.kill_at is not None",
        "container.grace is None",
    ),
    ("a container without a stop signal is killed", "    if container.kill_at is None:\n        return job\n", ""),
    ("a kill of one is not repeated", "kill_at=now + stop_order.KILL_AGAIN", "kill_at=None"),
    ("an unkillable container is never reported", "container.killed_at or now", "now"),
    (
        "who waited in vain waits on",
        "return ended(it, now, _too_late(container, waiting[it.key].condition, limit))",
        "return it",
    ),
    (
        "a start timeout closes every node",
        "if it.node == container.node else it\n\n    return",
        "if True else it\n\n    return",
    ),
    ("a helper that gave up decides before the app", "(*essential, *given_up)[0]", "given_up[0]"),
    (
        "a start timeout of another node decides",
        "if node != container_gates.main_node(job) or attempt.decided_by",
        "if attempt.decided_by",
    ),
    (
        "a timeout reaches what is decided",
        "if job.stop is not None or attempt_of(job).decided_by is not None else",
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
        "order_stop(job, it, now, event) if it.node == event.node else it",
        "order_stop(job, it, now, event)",
    ),
    (
        "the job is over with its first container",
        "over = all(it.state is AttemptContainerState.ENDED",
        "over = any(it.state is AttemptContainerState.ENDED",
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
        "main = [it for it in attempt.containers if it.node == container_gates.main_node(job)]",
        "main = list(attempt.containers)",
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
        "        return _tags(job, frozenset({AttemptContainerState.RUNNING}))",
        "        return _tags(job, container_gates.BEGUN)",
    ),
    (
        "a helper is looked at before a timeout",
        "return container.node != main, not container_gates.task_container_of(job, container).essential",
        "return container.node != main, container_gates.task_container_of(job, container).essential",
    ),
    (
        "another node is looked at before a timeout",
        "return container.node != main, not",
        "return container.node == main, not",
    ),
    ("what is kept for the next is cleared away", "for key in there if key not in gone)", "for key in there if False)"),
    ("the second container has no log", "    if not has_task(before):\n        ran", "    if True:\n        ran"),
    (
        "a late event of an ended container is illegal",
        "    AttemptContainerState.ENDED: _OVER,",
        "    AttemptContainerState.ENDED: {},",
    ),
]
CONSEQUENCES = [
    (
        "the last essential one decides",
        "if attempt.decided_by is not None or decider is None:",
        "if decider is None:",
    ),
    ("who can never start waits for ever", "_give_up(_close(_decide(job), now), now)", "_close(_decide(job), now)"),
    ("the others go on", "_give_up(_close(_decide(job), now), now)", "_give_up(_decide(job), now)"),
    (
        "a starting container gets a stop signal",
        "_give_up(_close(_decide(job), now), now)",
        "_give_up(_close(_open(_decide(job), now), now), now)",
    ),
    (
        "an exit is reported again",
        "    if container.state is AttemptContainerState.ENDED or container.stop_ordered:",
        "    if container.state is AttemptContainerState.ENDED:",
    ),
    (
        "the job's grace beats the container's",
        "        container_gates.task_container_of(job, container).stop_timeout,\n        job.spec.stop_grace,",
        "        job.spec.stop_grace,",
    ),
    ("a terminate may not bring a grace to containers", "        None if own is None else own.grace,\n", ""),
    ("a terminated node does not say why", "None if own is None or own.node is None else own.reason", "None"),
    (
        "a terminated job writes its reason on every container",
        "None if own is None or own.node is None else",
        "None if own is None else",
    ),
    (
        "a start is not given up",
        "if new.state is AttemptContainerState.STARTING and new.stop_ordered and not old.stop_ordered:",
        "if False:",
    ),
    (
        "a container that started in spite of an order gets no stop signal",
        "        and (old.state is not new.state or not old.stop_ordered)\n",
        "        and not old.stop_ordered\n",
    ),
    (
        "a stop signal is sent again and again",
        "        and (old.state is not new.state or not old.stop_ordered)\n",
        "",
    ),
    (
        "one that was over before its start was answered may start again",
        "        and new.started_at is not None\n    ):",
        "        and False\n    ):",
    ),
    (
        "a volume goes before the next has read it",
        "    if any(it.state in container_gates.YET_TO_COME for it in containers):\n        return ()\n",
        "",
    ),
    (
        "what never began is cleared away",
        "AttemptContainerState.ENDED and it.start_requested_at is not None",
        "AttemptContainerState.ENDED",
    ),
    ("what was cleared away is cleared away again", "        if key not in gone:\n", "        if True:\n"),
]
GATES = [
    ("nodes start with the main one", "(main_found or container.node == main_node(job))", "True"),
    (
        "nodes start though the main one has no address yet",
        "started_at is not None and task_container_of(job, container).essential\n",
        "started_at is not None\n",
    ),
    ("one condition is enough", "if found <= {Gate.OPEN} and", "if (not found or Gate.OPEN in found) and"),
    ("what can never be waits", "    if Gate.NEVER in found:\n        return Gate.NEVER\n", ""),
    (
        "who ended has never started",
        "Condition.START: container.started_at is not None",
        "Condition.START: container.state is AttemptContainerState.RUNNING",
    ),
    (
        "a failure completes nothing",
        "Condition.COMPLETE: over,",
        "Condition.COMPLETE: over and container.exit_code == 0,",
    ),
    ("any end is a success", "Condition.SUCCESS: over and container.exit_code == 0", "Condition.SUCCESS: over"),
    (
        "a helper closes its node",
        "it.state is AttemptContainerState.ENDED and task_container_of(job, it).essential\n",
        "it.state is AttemptContainerState.ENDED\n",
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
    ("every node decides", "return over and container.node == main_node(job) and", "return over and"),
    (
        "a helper decides",
        " and task_container_of(job, container).essential\n\n\ndef waiting_for",
        "\n\n\ndef waiting_for",
    ),
    (
        "what was given up decides",
        "over = container.state is AttemptContainerState.ENDED and failed_or_ran",
        "over = container.state is AttemptContainerState.ENDED",
    ),
    ("node 0 leads", "    return 0 if job.spec.nodes is None else job.spec.nodes.main", "    return 0"),
    (
        "the nodes come in their order",
        "nodes = (main, *(node for node in others if node != main))",
        "nodes = tuple(others)",
    ),
    (
        "who waits for another is waited for",
        "if dependency.container == container.name and _condition",
        "if _condition",
    ),
    (
        "on all nodes they wait for one",
        "AttemptContainerState.WAITING and other.node == container.node:",
        "AttemptContainerState.WAITING:",
    ),
]
DEADLINES = [
    ("an alarm of several is overheard in the moment it is due", "if it[0] <= now]", "if it[0] < now]"),
    (
        "the last deadline rings first",
        "sorted(found, key=lambda it: it[0])",
        "sorted(found, key=lambda it: it[0], reverse=True)",
    ),
    ("what is decided times out", "        and attempt.decided_by is None\n", ""),
    ("what is to stop times out", "        and job.stop is None\n", ""),
    ("a container without dependents has a startTimeout", " and container.key in needed:", ":"),
    ("what is over is killed", "        if container.state not in BEGUN:\n            continue\n", ""),
]
SEVERAL = {
    "batchq/domain/lifecycle/containers.py": PARTS,
    "batchq/domain/lifecycle/container_rules.py": CONSEQUENCES,
    "batchq/domain/lifecycle/container_gates.py": GATES,
    "batchq/domain/lifecycle/deadlines.py": DEADLINES,
}

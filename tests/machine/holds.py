"""The required results of holds, releases, pauses and resumes (docs/hold-and-pause.md), without code of the domain."""

from collections.abc import Iterator

from tests.machine.observations import (
    ACTIVE,
    OVER,
    Array,
    GrantedOrder,
    HoldReply,
    JobObservations,
    Leaf,
    Observation,
    Record,
)


def leaf_differences(record: Record, job_id: str, leaf: Leaf, seen: JobObservations) -> Iterator[str]:
    """Each rule about holds that a job broke, in a line."""
    for reply in _replies(record, job_id):
        if reply.refused is not None:
            if not _may_refuse(record, leaf, seen, reply):
                yield f"refused for no reason: {reply}"
        elif not _follows(reply, seen):
            yield f"{job_id} does not show {reply}: {seen.at(reply.granted)}"
    for start in seen.starts:
        for reply in _standing(record, job_id, leaf, start.commit):
            yield f"{job_id} started by commit {start.commit}, after {reply}"
    yield from _paused_attempts(record, job_id, leaf, seen)


def array_differences(record: Record, job_id: str, array: Array, seen: JobObservations) -> Iterator[str]:
    """As `leaf_differences`, for the parent of an array."""
    for reply in _replies(record, job_id):
        ends = _is_ending(record, job_id, reply) or any(
            job.status == "FAILED" for child in array.children for job in _during(record.seen.get(child), reply)
        )
        if reply.refused is not None and not ends and not _was(OVER, seen, reply):
            yield f"refused for no reason: {reply}"
        if reply.refused is None and not ends and not _follows(reply, seen):
            yield f"{job_id} does not show {reply}: {seen.at(reply.granted)}"


def cancels_pause(record: Record, job_id: str, leaf: Leaf, seen: JobObservations, order: GrantedOrder) -> bool:
    """Whether a cancel finds the attempt pausing: the job may end with it, whatever its exit code."""
    at_order = [seen.at(index) for index in range(order.sent, order.granted + 1)]
    is_active = any(job is not None and job.status in ACTIVE for job in at_order)
    begun = max((start.commit for start in seen.starts if start.commit <= order.granted), default=0)
    pauses = [hold for hold in record.holds if hold.kind == "pause" and hold.holds and hold.of in (job_id, leaf.parent)]
    return is_active and any(begun <= pause.granted <= order.granted for pause in pauses)


def _replies(record: Record, job_id: str) -> list[HoldReply]:
    return [hold for hold in record.holds if hold.of == job_id]


def _follows(reply: HoldReply, seen: JobObservations) -> bool:
    """Whether the job is held after it was held, and not after it was released; an ended job keeps what it had."""
    after = seen.at(reply.granted)
    return after is not None and (after.status in OVER or after.held == reply.holds)


def _may_refuse(record: Record, leaf: Leaf, seen: JobObservations, reply: HoldReply) -> bool:
    """Whether a missing or ended job refuses it, an active job refuses a hold, or an ending job a pause.

    The children of an array that was ordered to stop, and those behind a failed one that they wait for, count as ended
    from that commit on (decision 0027).
    """
    before = seen.at(reply.sent)
    failed = any(job.status == "FAILED" for other in leaf.after for job in _during(record.seen.get(other), reply))
    if before is None or failed or _was(OVER, seen, reply) or _is_ending(record, leaf.parent, reply):
        return True
    if reply.kind == "hold":
        return _was(ACTIVE, seen, reply)
    return reply.kind == "pause" and _is_ending(record, reply.of, reply) and _was(ACTIVE, seen, reply)


def _is_ending(record: Record, job_id: str | None, reply: HoldReply) -> bool:
    return any(order.of == job_id and order.granted <= reply.granted for order in record.orders)


def _during(seen: JobObservations | None, reply: HoldReply) -> list[Observation]:
    """The states of a job from the request to its reply."""
    states = [] if seen is None else [seen.at(index) for index in range(reply.sent, reply.granted + 1)]
    return [state for state in states if state is not None]


def _was(statuses: set[str], seen: JobObservations, reply: HoldReply) -> bool:
    return any(job.status in statuses for job in _during(seen, reply))


def _standing(record: Record, job_id: str, leaf: Leaf, commit: int) -> list[HoldReply]:
    """The holds of the job, and those of its array that had an effect, that stand before this commit."""
    stand: dict[str, HoldReply] = {}
    for reply in (hold for hold in record.holds if hold.of in (job_id, leaf.parent) and hold.sent < commit):
        if reply.releases:
            stand.pop(reply.of, None)
            if _releases_children(record, reply):
                stand.pop(job_id, None)
            if reply.of == job_id:
                stand.clear()
        elif reply.holds and reply.granted < commit and _has_effect(record, reply):
            stand[reply.of] = reply
    return list(stand.values())


def _has_effect(record: Record, reply: HoldReply) -> bool:
    """Whether the request holds the children: a held array does not hold them again, nor a paused one pause them."""
    if reply.of not in record.arrays:
        return True
    last = None
    for other_reply in _replies(record, reply.of):
        if other_reply is reply:
            break
        if other_reply.releases:
            last = None
        elif other_reply.holds:
            last = "pause" if "pause" in (last, other_reply.kind) else "hold"
    return last is None or (last == "hold" and reply.kind == "pause")


def _releases_children(record: Record, reply: HoldReply) -> bool:
    """Whether a release of an array reaches its children: it does if the array is held."""
    before = [
        other_reply
        for other_reply in _replies(record, reply.of)
        if other_reply.granted <= reply.sent and other_reply.refused is None
    ]
    return reply.of in record.arrays and bool(before) and before[-1].holds


def _paused_attempts(record: Record, job_id: str, leaf: Leaf, seen: JobObservations) -> Iterator[str]:
    """An attempt ends paused only if a pause of the job or of its array was requested before its end."""
    ends = {
        attempt: observation.commit for observation in reversed(seen.observations) for attempt in observation.paused
    }
    for attempt, commit in ends.items():
        pauses = [hold for hold in record.holds if hold.kind == "pause" and hold.of in (job_id, leaf.parent)]
        begun = seen.starts[attempt - 1].commit
        if not any(pause.sent < commit and (pause.of != job_id or pause.granted >= begun) for pause in pauses):
            yield f"attempt {attempt} of {job_id} is paused, without a pause"

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
            it.status == "FAILED" for child in array.children for it in _during(record.seen.get(child), reply)
        )
        if reply.refused is not None and not ends and not _was(OVER, seen, reply):
            yield f"refused for no reason: {reply}"
        if reply.refused is None and not ends and not _follows(reply, seen):
            yield f"{job_id} does not show {reply}: {seen.at(reply.granted)}"


def cancels_pause(record: Record, job_id: str, leaf: Leaf, seen: JobObservations, order: GrantedOrder) -> bool:
    """Whether a cancel finds the attempt pausing: the job may end with it, whatever its exit code."""
    at_order = [seen.at(it) for it in range(order.sent, order.granted + 1)]
    is_active = any(it is not None and it.status in ACTIVE for it in at_order)
    begun = max((it.commit for it in seen.starts if it.commit <= order.granted), default=0)
    pauses = [it for it in record.holds if it.kind == "pause" and it.holds and it.of in (job_id, leaf.parent)]
    return is_active and any(begun <= it.granted <= order.granted for it in pauses)


def _replies(record: Record, job_id: str) -> list[HoldReply]:
    return [it for it in record.holds if it.of == job_id]


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
    failed = any(it.status == "FAILED" for other in leaf.after for it in _during(record.seen.get(other), reply))
    if before is None or failed or _was(OVER, seen, reply) or _is_ending(record, leaf.parent, reply):
        return True
    if reply.kind == "hold":
        return _was(ACTIVE, seen, reply)
    return reply.kind == "pause" and _is_ending(record, reply.of, reply) and _was(ACTIVE, seen, reply)


def _is_ending(record: Record, job_id: str | None, reply: HoldReply) -> bool:
    return any(it.of == job_id and it.granted <= reply.granted for it in record.orders)


def _during(seen: JobObservations | None, reply: HoldReply) -> list[Observation]:
    """The states of a job from the request to its reply."""
    states = [] if seen is None else [seen.at(it) for it in range(reply.sent, reply.granted + 1)]
    return [it for it in states if it is not None]


def _was(statuses: set[str], seen: JobObservations, reply: HoldReply) -> bool:
    return any(it.status in statuses for it in _during(seen, reply))


def _standing(record: Record, job_id: str, leaf: Leaf, commit: int) -> list[HoldReply]:
    """The holds of the job, and those of its array that had an effect, that stand before this commit."""
    stand: dict[str, HoldReply] = {}
    for reply in (it for it in record.holds if it.of in (job_id, leaf.parent) and it.sent < commit):
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
    for it in _replies(record, reply.of):
        if it is reply:
            break
        if it.releases:
            last = None
        elif it.holds:
            last = "pause" if "pause" in (last, it.kind) else "hold"
    return last is None or (last == "hold" and reply.kind == "pause")


def _releases_children(record: Record, reply: HoldReply) -> bool:
    """Whether a release of an array reaches its children: it does if the array is held."""
    before = [it for it in _replies(record, reply.of) if it.granted <= reply.sent and it.refused is None]
    return reply.of in record.arrays and bool(before) and before[-1].holds


def _paused_attempts(record: Record, job_id: str, leaf: Leaf, seen: JobObservations) -> Iterator[str]:
    """An attempt ends paused only if a pause of the job or of its array was requested before its end."""
    ends = {attempt: it.commit for it in reversed(seen.observations) for attempt in it.paused}
    for attempt, commit in ends.items():
        pauses = [it for it in record.holds if it.kind == "pause" and it.of in (job_id, leaf.parent)]
        begun = seen.starts[attempt - 1].commit
        if not any(it.sent < commit and (it.of != job_id or it.granted >= begun) for it in pauses):
            yield f"attempt {attempt} of {job_id} is paused, without a pause"

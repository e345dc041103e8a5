"""The outcomes of jobs by the rules of AWS (aws-batch.md 5, 7, 8). It shares no code with the domain.

Of each job: how it may end, given what was granted and how far the job was seen to be at that moment; and what may
never have been seen. Mostly there is one end; two where an order and an end of its own fell into one instant.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.machine.holds import array_differences, cancels_pause, leaf_differences
from tests.machine.observations import (
    ACTIVE,
    OVER,
    Array,
    GrantedOrder,
    JobObservations,
    Leaf,
    Observation,
    Record,
    ShownOrder,
)

EXITED, DEPENDENT, CHILD = "Essential container in task exited", "Dependent Job failed", "Array Child Job failed"
FLAGS = {"cancel": "cancelled", "terminate": "terminated"}
STOPS_WITHIN = 2.0 + 0.5  # seconds: the grace of the world, and what a kill takes


@dataclass(frozen=True, kw_only=True)
class End:
    status: str
    reason: str | None
    flag: str | None = None


def end_of(observation: Observation) -> End:
    flags = [name for name in ("cancelled", "terminated") if getattr(observation, name)]
    reason = DEPENDENT if (observation.reason or "").startswith(f"{DEPENDENT}: ") else observation.reason
    return End(status=observation.status, reason=reason, flag=" and ".join(flags) or None)


def ordered(order: GrantedOrder) -> End:
    return End(status="FAILED", reason=order.reason, flag=FLAGS[order.kind])


def differences(record: Record) -> Iterator[str]:
    """Each rule that a job broke, in a line."""
    for refused in record.refused:
        if not any(_never_exists(record, name, refused.commit) for name in refused.after):
            yield f"refused for no reason: {refused}"
    for job_id in record.ids():
        if job_id not in record.seen:
            yield from _not_observed(record, job_id)
            continue
        seen = record.seen[job_id]
        if seen.over is None:
            yield f"{job_id} never ends: {seen.last}"
        elif job_id in record.arrays:
            yield from _array(record, job_id, record.arrays[job_id], seen)
        else:
            yield from _leaf(record, job_id, record.leaves[job_id], seen)


def _never_exists(record, job_id, commit):
    """A child of an array that was over before it had any."""
    parent = record.leaves[job_id].parent if job_id in record.leaves else None
    return parent is not None and record.seen[parent].begun is None and record.seen[parent].at(commit).status in OVER


def _not_observed(record, job_id):
    parent = record.leaves[job_id].parent if job_id in record.leaves else None
    if parent is None:
        yield f"{job_id} was acknowledged and is lost"
    elif record.seen[parent].begun is not None:
        yield f"{job_id} never came to be, and its array had begun"


# ---------------------------------------------------------------------------------------------------- one that runs


def _leaf(record, job_id, leaf: Leaf, seen: JobObservations):
    may = ends_of_leaf(record, job_id, leaf, seen)
    if end_of(seen.over) not in may:
        yield f"{job_id} ended {end_of(seen.over)}, and may only {may}"
    yield from _starts(record, job_id, leaf, seen)
    yield from _attempts(record, job_id, leaf, seen)
    yield from leaf_differences(record, job_id, leaf, seen)
    yield from _shown_orders(job_id, _orders(record, job_id, leaf), seen)
    if any(observation.terminated and observation.cancelled for observation in seen.observations):
        yield f"{job_id} is cancelled and terminated"


def _shown_orders(job_id, granted: list[GrantedOrder], seen: JobObservations) -> Iterator[str]:
    """An order that a job shows was granted, and is shown until the end; one that finds the job unfinished is shown.

    A terminate that follows a terminate, and a cancel that follows any order, change nothing and are not shown.
    """
    known = {(record.kind.upper(), record.user, record.reason) for record in granted}
    shown: tuple[ShownOrder, ...] = ()
    for _, orders in seen.orders:
        if orders[: len(shown)] != shown:
            yield f"{job_id} showed {shown}, and then {orders}"
        shown = orders
    if not known.issuperset(shown):
        yield f"{job_id} shows {shown}, and was given {known}"
    if [kind for kind, _, _ in shown] not in ([], ["CANCEL"], ["TERMINATE"], ["CANCEL", "TERMINATE"]):
        yield f"{job_id} shows {shown}"
    for order in granted:
        before = seen.at(order.sent)
        if (
            order.of == job_id
            and before is not None
            and before.status not in OVER
            and not seen.orders_at(order.granted)
        ):
            over = seen.at(order.granted)
            if over is None or over.status not in OVER:
                yield f"{job_id} does not show {order}"


def _orders(record, job_id, leaf) -> list[GrantedOrder]:
    """The requests that reach the job; a request to an unspawned child waits for the child."""
    return [order for order in record.orders if order.of in (leaf.parent, job_id)]


def ends_of_leaf(record, job_id, leaf, seen) -> set[End]:
    orders = _orders(record, job_id, leaf)
    own = [order for order in orders if order.of == job_id]
    ends = {_fold(leaf, seen, orders, record)}
    ends |= {_fold(leaf, seen, order, record) for order in _as_applied(leaf, orders, seen)}
    for order in own:
        before = seen.at(order.sent)
        if before is not None and before.status not in OVER and seen.over.commit <= order.granted:
            ends.add(
                _fold(leaf, seen, [other_order for other_order in orders if other_order != order], record)
            )  # both in one unit of work
    ends |= {
        ordered(order)
        for order in orders
        if order.kind == "cancel" and cancels_pause(record, job_id, leaf, seen, order)
    }
    failed = [
        end for end in (record.seen[other].over for other in leaf.after if other in record.seen) if end is not None
    ]
    failed = [job for job in failed if job.status == "FAILED"]
    if any(entry.at == order.at or _born_to_both(seen, entry, order) for entry in failed for order in orders):
        ends.add(End(status="FAILED", reason=DEPENDENT))
    return ends


def _as_applied(leaf, orders, seen) -> Iterator[list[GrantedOrder]]:
    """An order to an array reaches its children later: of the orders of one instant any may be the first, or the next.

    An order in the instant in which the child ends may not have reached it.
    """
    for first in orders:
        together = [order for order in orders if order.at == first.at]
        if any(order.of == leaf.parent for order in together):
            for then in together:
                applied = sorted(orders, key=lambda order: (order.at, order is not first, order is not then))
                yield from (_but_the_last(leaf, applied, number, seen) for number in range(len(applied) + 1))


def _but_the_last(leaf, orders, number, seen) -> list[GrantedOrder]:
    missed = [order for order in orders[number:] if order.of == leaf.parent and order.at == seen.over.at]
    return [order for order in orders if order not in missed]


def _born_to_both(seen, failed, order):
    """Its array was ordered to end before it was there, and what it would wait for had failed."""
    born = seen.observations[0].commit
    return order.granted < born and failed.commit <= born


def _fold(leaf, seen, orders, record) -> End:
    """The first order that finds it not over stands; but a terminate outdoes a cancel that a running one remembers."""
    stands: GrantedOrder | None = None
    spared = 0  # the attempt that a cancel leaves alone
    for order in orders:
        before = seen.at(order.sent)
        if before is not None and before.status in OVER:
            continue
        runs = _under_way(seen, order)
        if stands is None or (order.kind == "terminate" and stands.kind == "cancel" and runs):
            stands, spared = order, runs if order.kind == "cancel" else 0
    if stands is None:
        return _course(leaf, seen, record)
    if spared and leaf.script(spared)[1] == 0 and leaf.script(spared)[0] is not None:
        return End(status="SUCCEEDED", reason=EXITED)
    return ordered(stands)


def _under_way(seen, order) -> int:
    """The number of the attempt that was under way when the order was granted, 0 if none was."""
    observations = [seen.at(commit) for commit in range(order.sent, order.granted + 1)]
    active = any(observation is not None and observation.status in ACTIVE for observation in observations)
    return len([start for start in seen.starts if start.commit <= order.granted]) if active else 0


def _course(leaf, seen, record) -> End:
    """The end of a job without an order: its dependencies decide, then its own exits."""
    if any(
        record.seen[name].over is None or record.seen[name].over.status == "FAILED"
        for name in _known(record, leaf.after)
    ):
        return End(status="FAILED", reason=DEPENDENT)
    if any(name not in record.seen for name in leaf.after):
        return End(status="FAILED", reason=DEPENDENT)
    return End(status="SUCCEEDED" if _exits(leaf, seen)[-1] == 0 else "FAILED", reason=EXITED)


def _known(record, job_ids):
    return [job_identifier for job_identifier in job_ids if job_identifier in record.seen]


def _exits(leaf, seen) -> list[int]:
    """The exit codes of its attempts if it is not stopped; attempts that a pause ended do not count."""
    paused, exits = seen.last.paused, []
    counted = (index for index in range(1, leaf.attempts + len(paused) + 1) if index not in paused)
    for attempt in counted:
        exits.append(leaf.script(attempt)[1])
        if exits[-1] == 0 or (exits[-1] == 3 and leaf.stops_at_exit_3):
            break
    return exits


def _starts(record, job_id, leaf, seen):
    """None before what it waits for has succeeded; none after an order to it, or to its array, was granted."""
    for start in seen.starts:
        for other in leaf.after:
            over = record.seen[other].over if other in record.seen else None
            if over is None or over.status != "SUCCEEDED" or over.commit > start.commit:
                yield f"{job_id} started by commit {start.commit}, but {other} had not succeeded"
        for order in _orders(record, job_id, leaf):
            if order.granted < start.commit:
                yield f"{job_id} started by commit {start.commit}, after {order} was granted"
    for before in leaf.after:
        ends = record.seen[before].last.stopped_at if before in record.seen else None
        if seen.starts and seen.last.started_at is not None and ends is not None and seen.last.started_at < ends:
            yield f"{job_id} started at {seen.last.started_at}, {before} stopped at {ends}"


def _attempts(record, job_id, leaf, seen):
    """Each attempt ends as its script unless it was stopped; a job that was not stopped has all its attempts."""
    exits, may = list(seen.last.exits), _exits(leaf, seen)
    orders = _orders(record, job_id, leaf)
    last = exits[:-1] if orders else exits
    if last != may[: len(last)] or len(exits) > len(may):
        yield f"{job_id} had the exits {exits}, of {may}"
    if (
        end_of(seen.last) in {End(status="SUCCEEDED", reason=EXITED), End(status="FAILED", reason=EXITED)}
        and exits != may
    ):
        yield f"{job_id} came by itself to the exits {exits}, not {may}"
    for order in orders:
        before = seen.at(order.granted)
        late = order.kind == "terminate" and seen.over.at - order.at > STOPS_WITHIN
        if late and before is not None and before.status in ACTIVE:
            yield f"{job_id} was over at {seen.over.at}, and terminated at {order.at}"


# ------------------------------------------------------------------------------------------ the parent of an array


def _array(record, job_id, array: Array, seen: JobObservations):
    may = ends_of_array(record, job_id, array, seen)
    if end_of(seen.over) not in may:
        yield f"{job_id} ended {end_of(seen.over)}, and may only {may}"
    if seen.starts or seen.last.attempts:
        yield f"{job_id} is an array, and started"
    yield from _waits(record, job_id, array, seen)
    yield from _children(record, job_id, array, seen)
    yield from array_differences(record, job_id, array, seen)
    yield from _shown_orders(job_id, [order for order in record.orders if order.of == job_id], seen)


def ends_of_array(record, job_id, array, seen) -> set[End]:
    orders = [order for order in record.orders if order.of == job_id]
    kept = [order for order in orders if seen.at(order.sent) is None or seen.at(order.sent).status not in OVER]
    if seen.begun is None:
        return _ends_unbegun(record, array, seen, kept)
    ends = {_end_begun(record, array, kept)}
    for order in kept:
        if seen.over.commit <= order.granted:
            ends.add(
                _end_begun(record, array, [kept_order for kept_order in kept if kept_order != order])
            )  # both in one unit of work
    return ends


def _ends_unbegun(record, array, seen, orders):
    ends = {ordered(orders[0])} if orders else set()
    failed = [
        name
        for name in _known(record, array.after)
        if record.seen[name].over and record.seen[name].over.status == "FAILED"
    ]
    failed += [name for name in array.after if name not in record.seen]
    failed += [name for name in array.begins_after if record.seen[name].begun is None]
    if failed and not any(order.granted < seen.over.commit for order in orders):
        ends.add(End(status="FAILED", reason=DEPENDENT))
    return ends


def _end_begun(record, array, orders) -> End:
    for kind in ("terminate", "cancel"):
        for order in orders:
            if order.kind == kind:
                return ordered(order)
    if any(record.seen[name].last.status == "FAILED" for name in _known(record, array.children)):
        return End(status="FAILED", reason=CHILD)
    return End(status="SUCCEEDED", reason=None)


def _waits(record, job_id, array, seen):
    """An array may have children only after its dependencies have succeeded and its counterpart has children."""
    if seen.begun is None:
        return
    for other in array.after:
        over = record.seen[other].over if other in record.seen else None
        if over is None or over.status != "SUCCEEDED" or over.commit > seen.begun.commit:
            yield f"{job_id} began by commit {seen.begun.commit}, but {other} had not succeeded"
    for other in array.begins_after:
        begun = record.seen[other].begun
        if begun is None or begun.commit > seen.begun.commit:
            yield f"{job_id} began by commit {seen.begun.commit}, but {other} had not"


def _children(record, job_id, array, seen):
    children = [record.seen[name] for name in _known(record, array.children)]
    if seen.begun is None:
        if children:
            yield f"{job_id} never began, and has {len(children)} children"
        return
    if any(child.observations[0].commit < seen.begun.commit for child in children):
        yield f"{job_id} had children before it began"
    if any(child.over is None or child.over.commit > seen.over.commit for child in children):
        yield f"{job_id} was over before its children"
    lines, true = dict(seen.last.counts), Counter(child.last.status for child in children)
    if lines != dict(true):
        yield f"{job_id} counts {lines}, and it is {dict(true)}"

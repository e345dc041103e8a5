"""The bugs of `mutations` that are in stopping many jobs by one order."""

SWEEP = [
    ("a cancel ends what runs, it is said", "if status in QUEUED else Outcome.NOT_RETRIED", "if True else None"),
    ("an array is reported as ended at once", "    if has_children:\n        return Outcome.STOPPING\n", ""),
    ("a requested status includes the array", "return self.statuses is not None or", "return"),
    ("nobody waits for children that are named", "return self.by_child or any(", "return self.by_child and any("),
    ("the order's signal is forgotten", "node=node, signal=order.signal", "node=node"),
    ("the order's grace is forgotten", "grace=order.grace, node", "node"),
]
SPANS = [
    ("runs that touch are two", "first <= run[1] + 1", "first <= run[1]"),
    ("a run that lies within another ends it", "max(last, run[1])", "last"),
    ("the last of a run is not in it", "order <= self._lasts[run]", "order < self._lasts[run]"),
]
SWEEPS = [
    ("an order is carried out no further than one unit", "over=len(page) < most", "over=True"),
    (
        "the targets of an order are not selected",
        "            self._targets_outdated = True\n        for progress",
        "        for progress",
    ),
    (
        "after a restart nobody knows whom it means",
        "        self._targets_outdated = True\n        for number",
        "        for number",
    ),
    ("an order goes on for ever", "del self._in_progress[progress.bulk_stop]", "pass"),
    ("one order holds up all others", "math.ceil(left / (len(self._in_progress) - before))", "left"),
    ("each order of a unit tells as many as one may", "left -= len(page)", "pass"),
]
SKIP = [
    ("the children of an array under order start", "it.order in self.children or ", ""),
    ("who is meant starts", " or it.order in self.bulk_stop_targets", ""),
]
SWEEPING = {
    "batchq/domain/bulk_stop.py": SWEEP,
    "batchq/domain/intervals.py": SPANS,
    "batchq/engine/bulk_stops.py": SWEEPS,
    "batchq/engine/scheduling/queue_reader.py": SKIP,
}

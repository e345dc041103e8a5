"""I13 of the feed: every committed history entry has one number, in the order of the commits, also after crashes."""

from batchq.engine.history_feed import HistoryFeed
from batchq.ports.history import FeedFilter, HistoryEntry
from batchq.ports.jobs import Changes
from tests.simulation.run_log import RunLog

PAGE = 7  # entries: small, so that pages end amid a commit


class HistoryChecks:
    """Records the entries of every commit; entry `n` has the number `n + 1`."""

    def __init__(self, run_log: RunLog) -> None:
        self.committed: list[HistoryEntry] = []
        self._run_log = run_log

    def record(self, changes: Changes) -> None:
        """Called for each commit before any other task runs, also if the server dies before the reply."""
        self.committed += changes.history

    def check_numbers(self, first_number: int | None, changes: Changes) -> None:
        """Check the reply of a commit. No other commit can have come between, because there is one writer."""
        expected = len(self.committed) - len(changes.history) + 1 if changes.history else None
        if first_number != expected:
            self._run_log.fail("I13 a commit returns its first number", f"{first_number} instead of {expected}")

    def check_feed(self, feed: HistoryFeed) -> None:
        """At the end of a server, also by a crash: its feed in memory has what was committed, without a hole.

        The last commit may lack, because the server may have died before it got the reply.
        """
        ring = [(it.number, it.entry) for it in feed._ring]
        first = feed.last + 1 - len(ring)
        if ring != [(number, self.committed[number - 1]) for number in range(first, feed.last + 1)]:
            self._run_log.fail("I13 the feed in memory is what was committed", f"{first} to {feed.last}")

    async def check_store(self, store, deleted) -> None:
        """At the end: the stored feed is what was committed, except for deleted jobs."""
        stored, after, gaps = [], 0, []
        while (page := await store.feed(after, FeedFilter(), limit=PAGE, scan=2 * PAGE)).next > after:
            stored += page.entries
            gaps.append(page.gap)
            after = page.next
        expected = [(number, it) for number, it in enumerate(self.committed, 1) if it.job_id not in deleted]
        if [(it.number, it.entry) for it in stored] != expected:
            self._run_log.fail("I13 the feed is what was committed", f"{len(stored)} entries, not {len(expected)}")
        if after != len(self.committed):
            self._run_log.fail("I13 the feed ends with the last commit", f"{after} instead of {len(self.committed)}")
        if any(gaps) != bool(deleted):
            self._run_log.fail("I13 a gap is reported where jobs were deleted", f"{gaps} {deleted}")

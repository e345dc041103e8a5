"""Detects submissions that may be repetitions, and jumps of the clock, after which no repetition is forgotten."""

from datetime import UTC, datetime, timedelta

from batchq.domain.ids import SubmissionKey

SUBMISSIONS_KEPT_FOR = timedelta(minutes=15)  # how long a submission is stored under its key
LONGEST_STEP = timedelta(minutes=1)  # between two units of work; a longer one may be a jump of the clock
FILTER_BYTES = 2**22  # bytes, one for each key's hash: at four hundred calls a second a tenth of them is marked


class IdempotencyFilter:
    """A filter of submission keys with false positives but no false negatives.

    A key marks one byte by its hash. An unmarked key is new; a marked one may be a different key with the same hash.
    Keys are marked before anything is saved, and stay marked longer than the submission is stored. The keys stored by
    an earlier server are not known, so every key may be a repetition until those have expired.

    A key expires only in a clock that has counted SUBMISSIONS_KEPT_FOR without a jump: after a reboot or a suspension
    of the machine the stored times may be too old by hours, and clients repeat their requests then. Decision 0122.
    """

    def __init__(self) -> None:
        #: The marks of the current period, which is SUBMISSIONS_KEPT_FOR long, then those of the previous period.
        #: Empty before the first submission.
        self._marks: tuple[bytearray, ...] = ()
        #: When the current period began.
        self._since = datetime.min.replace(tzinfo=UTC)
        #: Until when every key may be a repetition, and no key expires.
        self._unsure_until = self._since
        #: The start of the server, or the last jump of the clock.
        self._steady_since = self._since
        #: The time of the last unit of work.
        self._last_step = self._since

    def load(self, now: datetime, *, empty: bool) -> None:
        """Start at `now`. `empty`: no job has ever been saved in the store, so no key is stored either."""
        self._unsure_until = now if empty else now + SUBMISSIONS_KEPT_FOR
        self._steady_since = self._last_step = now

    def step(self, now: datetime) -> None:
        """Note the time of a unit of work."""
        if (since := self.steady_since(now)) != self._steady_since:
            self._steady_since, self._unsure_until = since, now + SUBMISSIONS_KEPT_FOR
        self._last_step = now

    def steady_since(self, now: datetime) -> datetime:
        """The last jump of the clock, or the start of the server if there was none."""
        return now if now - self._last_step > LONGEST_STEP else self._steady_since

    def expired_before(self, now: datetime) -> datetime | None:
        """The submissions stored before this time may be deleted; None: no submission."""
        return None if now < self._unsure_until else now - SUBMISSIONS_KEPT_FOR

    def may_be_repeated(self, key: SubmissionKey, now: datetime) -> bool:
        """Mark the key; whether it may be a repetition and must be looked up in the store."""
        if now - self._since >= SUBMISSIONS_KEPT_FOR:
            self._marks, self._since = (bytearray(FILTER_BYTES), *self._marks[:1]), now
        place = hash(key) % FILTER_BYTES
        marked = any(marks[place] for marks in self._marks)
        self._marks[0][place] = 1
        return marked or now < self._unsure_until

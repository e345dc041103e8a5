"""Detects submissions that may be repetitions, so that a new submission needs no read of the store."""

from datetime import UTC, datetime, timedelta

from batchq.ports.jobs import SubmissionKey

KEPT = timedelta(minutes=15)  # how long a submission is stored under its key
PLACES = 2**22  # bytes, one for each key's hash: at four hundred calls a second a tenth of them is marked


class IdempotencyFilter:
    """A filter of submission keys with false positives but no false negatives.

    A key marks one byte by its hash. An unmarked key is new; a marked one may be a different key with the same hash.
    Keys are marked before anything is saved, and stay marked longer than the submission is stored. The keys stored by
    an earlier server are not known, so every key may be a repetition until those have expired.
    """

    def __init__(self) -> None:
        #: The marks of the current and of the previous period, each KEPT long.
        self._marks, self._older = bytearray(PLACES), bytearray(PLACES)
        #: When the current period began; until when every key may be a repetition.
        self._since = self._unsure_until = datetime.min.replace(tzinfo=UTC)

    def load(self, now: datetime, *, empty: bool) -> None:
        """Begin with a store. `empty`: no job has ever been saved in it."""
        self._unsure_until = now if empty else now + KEPT

    def may_be_one(self, key: SubmissionKey, now: datetime) -> bool:
        """Mark the key; whether it may be a repetition and must be looked up in the store."""
        if now - self._since >= KEPT:
            self._marks, self._older, self._since = bytearray(PLACES), self._marks, now
        place = hash(key) % PLACES
        marked = self._marks[place] or self._older[place]
        self._marks[place] = 1
        return bool(marked) or now < self._unsure_until

"""Which calls may have made a job before. One that comes for the first time is not looked for in the store."""

from datetime import UTC, datetime, timedelta

from batchq.ports.jobs import SubmissionKey

KEPT = timedelta(minutes=15)  # that long a submission is remembered by its key
PLACES = 2**22  # bytes, of which a key marks one: four hundred calls a second mark a tenth of them


class IdempotencyFilter:
    """A key leaves a mark. Where there is none it is new; where there is one, that may be another key's.

    Marks are made before anything is saved, and stay longer than what is saved. Nothing is known of those that a server
    before this one has saved, so for as long as they are kept any key may be one of them.
    """

    def __init__(self) -> None:
        self._marks, self._older = bytearray(PLACES), bytearray(PLACES)
        self._since = self._unsure_until = datetime.min.replace(tzinfo=UTC)

    def load(self, now: datetime, *, empty: bool) -> None:
        """Beside a store, `empty` if no job was ever saved there."""
        self._unsure_until = now if empty else now + KEPT

    def may_be_one(self, key: SubmissionKey, now: datetime) -> bool:
        """Whether it has to be looked for; it leaves its mark."""
        if now - self._since >= KEPT:
            self._marks, self._older, self._since = bytearray(PLACES), self._marks, now
        place = hash(key) % PLACES
        marked = self._marks[place] or self._older[place]
        self._marks[place] = 1
        return bool(marked) or now < self._unsure_until

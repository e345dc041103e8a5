"""Marks: which checkpoints of a job existed at a moment. They order checkpoints without a clock. Decision 0066.

A mark stores the name and the time of the last change of each checkpoint. A checkpoint with another name or another
time was written after the mark, also if the machine's clock was set in between. The time between two marks is a period:
a checkpoint of a later period is newer than one of an earlier period, whatever their times are.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from batchq.ports.checkpoints import Moment

MAX_REQUESTS = 100  # requests of a job that are remembered


class Marks(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The marks of one job, as its file of marks stores them."""

    #: The number of the last mark; 0: there is none.
    last: int = 0
    #: By the name of each checkpoint at the last mark: when it was changed, in nanoseconds, and its period.
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: The numbers of the marks of moments, by `_key`.
    moments: dict[str, int] = field(default_factory=dict)
    #: The numbers of the marks at which checkpoints were requested, oldest first.
    requests: tuple[int, ...] = ()

    def period(self, name: str, changed_at: int) -> int:
        """The period in which a checkpoint was last changed: the number of the first mark after the change."""
        seen_at, period = self.seen.get(name, (None, 0))
        return period if seen_at == changed_at else self.last + 1

    def marked(self, changes: Mapping[str, int], *, incomplete: Collection[str] = ()) -> "Marks":
        """With one more mark, at which these checkpoints exist. `changes`: by name, when it was last changed.

        A checkpoint of `incomplete` counts as written later, unless an earlier mark has it unchanged.
        """
        periods = {name: self.period(name, changed_at) for name, changed_at in changes.items()}
        later = {name for name in incomplete if periods[name] > self.last}
        seen = {name: (changed_at, periods[name]) for name, changed_at in changes.items() if name not in later}
        return replace(self, last=self.last + 1, seen=seen)

    def with_moment(self, moment: Moment) -> "Marks":
        """With the last mark as that of the moment."""
        return replace(self, moments={**self.moments, _key(moment): self.last})

    def with_only(self, moment: Moment | None) -> "Marks":
        """With no other moment than this one; None: with none."""
        key = None if moment is None else _key(moment)
        return replace(self, moments={known: mark for known, mark in self.moments.items() if known == key})

    def at(self, moment: Moment) -> int | None:
        """The number of the mark of a moment; None: it was not recorded."""
        return self.moments.get(_key(moment))

    def with_request(self) -> "Marks":
        """With the last mark as that of a request for a checkpoint."""
        return replace(self, requests=(*self.requests, self.last)[-MAX_REQUESTS:])


def read_marks(file: Path) -> Marks:
    """The stored marks. Without a file, and for a file that a power cut has damaged: no marks."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Marks)
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return Marks()


def write_marks(file: Path, marks: Marks) -> None:
    """Replace the stored marks."""
    written = file.with_name(f".{file.name}")
    written.write_bytes(msgspec.json.encode(marks))
    written.replace(file)


def _key(moment: Moment) -> str:
    return f"{moment.attempt} {moment.mark}"

"""The health of the engine."""

from msgspec import Struct


class Health(Struct, frozen=True, kw_only=True):
    """The state of the engine's components."""

    #: Why the store fails; None: healthy.
    store: str | None
    #: What is wrong with the container engine; None: healthy.
    engine: str | None
    #: Why safe mode starts no job; None outside safe mode.
    safe_mode: str | None
    #: The state of each background loop by name; `ok`: healthy.
    loops: dict[str, str]
    #: The names of the loops that fail each time they are restarted.
    failing: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        wrong = (self.store, self.engine, self.safe_mode)
        return not any(wrong) and all(it == "ok" for it in self.loops.values())

"""Values that are made at every step of a job, made in a fraction of the time that dataclasses take for it.

A value is made soft, of a kind with the same members that may be written, and is frozen by being called its own kind.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, make_dataclass
from functools import cache, wraps
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - so that mypy looks at what is replaced
else:

    def replace(it: T, /, **changes: object) -> T:
        """The same but for these members. Its `__init__` is not called: none of ours does more than to take them."""
        kind = type(it)
        members, soft = _soft(kind)
        made = soft(*members(it))
        for name, value in changes.items():
            setattr(made, name, value)
        made.__class__ = kind
        return made


def quick(kind: type[T]) -> type[T]:
    """A frozen dataclass with slots, whose `__init__` takes what it took, by name, in less than half the time.

    Its own calls `object.__setattr__` for each member; this one is written as dataclasses write those of soft ones.
    """
    bare: type = kind
    members = fields(bare)
    known: dict[str, object] = {"_kind": bare, "_soft": _soft(bare)[1], "_be": object.__setattr__, "_MISSING": MISSING}
    asked = ", ".join([_parameter(it, known) for it in members])
    new = [it.name for it in members if it.default_factory is not MISSING]
    made = [f"if {name} is _MISSING: {name} = _{name}()" for name in new]
    put = [f"self.{it.name} = {it.name}" for it in members]
    body = [*made, "_be(self, '__class__', _soft)", *put, "self.__class__ = _kind"]
    exec("\n    ".join([f"def init(self, *, {asked}):", *body]), known)  # noqa: S102 - names of members, nobody's words
    kind.__init__ = wraps(kind.__init__)(known["init"])  # type: ignore[arg-type,assignment,method-assign]  # it takes the same
    return kind


def _parameter(member: Field[object], known: dict[str, object]) -> str:
    """With its default, which is known to it by its name."""
    if member.default_factory is not MISSING:
        known[f"_{member.name}"] = member.default_factory
        return f"{member.name}=_MISSING"
    known[f"_{member.name}"] = member.default
    return member.name if member.default is MISSING else f"{member.name}=_{member.name}"


@cache
def _soft(kind: type) -> tuple[Callable[[object], tuple[object, ...]], type]:
    names = [it.name for it in fields(kind)]
    assert len(names) > 1, f"{kind} has too few members to be worth it"
    assert not hasattr(kind, "__post_init__"), f"{kind} looks at what it is given"
    return attrgetter(*names), make_dataclass(f"Soft{kind.__name__}", names, slots=True)

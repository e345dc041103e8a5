"""Values that are made at every step of a job, made in a fraction of the time that dataclasses take for it.

A value is made soft, of a kind with the same members that may be written, and is frozen by being called its own kind.
For each kind the code is written that does so, as dataclasses themselves write theirs.
"""

from collections.abc import Sequence
from dataclasses import MISSING, fields, make_dataclass
from functools import cache, wraps
from types import FunctionType
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - so that mypy looks at what is replaced
else:

    def replace(it: T, /, **changes: object) -> T:
        """The same but for these members. Its `__init__` is not called: none of ours does more than to take them."""
        kind = type(it)
        made = _copying(kind)(it)
        for name, value in changes.items():
            setattr(made, name, value)
        made.__class__ = kind
        return made


def quick(kind: type[T]) -> type[T]:
    """A frozen dataclass with slots, whose `__init__` takes what it took, by name, in less than half the time.

    Its own calls `object.__setattr__` for each member.
    """
    bare: type = kind
    its = kind.__init__
    members, unsaid = fields(bare), its.__kwdefaults__ or {}
    new = {it.name: it.default_factory for it in members if it.default_factory is not MISSING}
    known: dict[str, object] = {
        "_kind": bare,
        "_soft": _soft(bare),
        "_be": object.__setattr__,
        "_new": new,
        "_unsaid": unsaid,
    }
    made = [f"if {name} is _unsaid['{name}']: {name} = _new['{name}']()" for name in new]
    put = [f"self.{it.name} = {it.name}" for it in members]
    body = [*made, "_be(self, '__class__', _soft)", *put, "self.__class__ = _kind"]
    init = _written(f"def init(self, *, {', '.join([it.name for it in members])}):", body, known)
    init.__kwdefaults__ = unsaid
    kind.__init__ = wraps(its)(init)  # type: ignore[method-assign]  # it takes what the other took
    return kind


@cache
def _copying(kind: type) -> object:
    """What makes a soft one with the members of one of this kind."""
    put = [f"made.{it.name} = it.{it.name}" for it in fields(kind)]
    body = ["made = _new(_soft)", *put, "return made"]
    return _written("def copy(it):", body, {"_soft": _soft(kind), "_new": object.__new__})


@cache
def _soft(kind: type) -> type:
    names = [it.name for it in fields(kind)]
    assert len(names) > 1, f"{kind} has too few members to be worth it"
    assert not hasattr(kind, "__post_init__"), f"{kind} looks at what it is given"
    return make_dataclass(f"Soft{kind.__name__}", names, slots=True)


def _written(head: str, body: Sequence[str], known: dict[str, object]) -> FunctionType:
    """The function of these lines, to which these names are known."""
    made: dict[str, FunctionType] = {}
    exec("\n    ".join([head, *body]), known, made)  # noqa: S102 - the names of members, and nobody's words
    return next(iter(made.values()))

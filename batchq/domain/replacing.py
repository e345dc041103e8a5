"""`dataclasses.replace`, for values that are made anew at every step of a job: it takes a third of the time.

It does not call `__init__`: none of ours does more than to take what it is given.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")
Put = Callable[[object, object], None]

if TYPE_CHECKING:
    from dataclasses import replace as replace  # noqa: PLC0414 - so that mypy looks at what is replaced
else:

    def replace(it: T, /, **changes: object) -> T:
        """The same but for these members."""
        kind = type(it)
        get, put = _members(kind)
        made = object.__new__(kind)
        for at, value in zip(put.values(), get(it), strict=True):
            at(made, value)
        for name, value in changes.items():
            put[name](made, value)
        return made


@cache
def _members(kind: type) -> tuple[Callable[[object], tuple[object, ...]], Mapping[str, Put]]:
    names = [it.name for it in fields(kind)]
    assert len(names) > 1, f"{kind} has too few members to be worth it"
    assert not hasattr(kind, "__post_init__"), f"{kind} looks at what it is given"
    return attrgetter(*names), {name: getattr(kind, name).__set__ for name in names}

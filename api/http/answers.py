"""Answers that are made of a value of the domain: a member has the value of the attribute with the same name."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from msgspec import Struct

from batchq.domain.cost import rounded
from batchq.domain.times import milliseconds

Answer = TypeVar("Answer", bound=Struct)


def answer_of(
    shape: type[Answer],
    source: object,
    *,
    times: Callable[[datetime], int | str] = milliseconds,
    **others: Any,  # noqa: ANN401 - the members of the shape
) -> Answer:
    """An answer with the values of those attributes of `source` that have the names of its members.

    Times are converted by `times`, and amounts of money to numbers with two decimals. `others`: the members that no
    attribute has, or that have another form.
    """
    members = {name: getattr(source, name) for name in shape.__struct_fields__ if name not in others}
    for name, value in members.items():
        if isinstance(value, datetime):
            members[name] = times(value)
        elif isinstance(value, Decimal):
            members[name] = amount(value)
    return shape(**members, **others)


def amount(value: Decimal) -> float:
    """An amount of money with two decimals."""
    return float(rounded(value))

"""An operation knows the shape of what it is asked: by it a body is parsed, and by it /openapi.json describes it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from pydantic import BaseModel

from batchq.api.http import parse

Answer = Mapping[str, object]


class WithBody(Protocol):
    """One request, as a dialect hands it on."""

    @property
    def body(self) -> bytes: ...


Desk = TypeVar("Desk")
Call = TypeVar("Call", bound=WithBody)
Shape = TypeVar("Shape", bound=BaseModel)


class Operation(Struct, Generic[Desk, Call], frozen=True):
    """What is done about a request.

    `body` and `query` are the shapes of what stands there; None where nothing does. `refused` is said to all who ask.
    """

    carry_out: Callable[[Desk, Call], Awaitable[Answer]]
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    refused: str = ""

    def __call__(self, desk: Desk, call: Call) -> Awaitable[Answer]:
        return self.carry_out(desk, call)


def takes(
    shape: type[Shape], *, check: Callable[[bytes], None] | None = None
) -> Callable[[Callable[[Desk, Call, Shape], Awaitable[Answer]]], Operation[Desk, Call]]:
    """A handler of bodies of that shape: it is not called with any other. `check` sees them before they are read."""

    def of(handle: Callable[[Desk, Call, Shape], Awaitable[Answer]]) -> Operation[Desk, Call]:
        def carry_out(desk: Desk, call: Call) -> Awaitable[Answer]:
            if check is not None:
                check(call.body)
            return handle(desk, call, parse(shape, call.body))

        return Operation(carry_out, body=shape)

    return of

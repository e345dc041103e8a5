"""Operations: a handler with the shapes of its requests, which are used to parse bodies and for /openapi.json."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from pydantic import BaseModel

from batchq.api.http import parse

Answer = Mapping[str, object]


class WithBody(Protocol):
    """One request, as a dialect passes it to a handler."""

    @property
    def body(self) -> bytes: ...


Desk = TypeVar("Desk")
Call = TypeVar("Call", bound=WithBody)
Shape = TypeVar("Shape", bound=BaseModel)


class Operation(Struct, Generic[Desk, Call], frozen=True):
    """A handler, and the shapes of its requests."""

    #: Handles one request, with the dialect's context and the request.
    carry_out: Callable[[Desk, Call], Awaitable[Answer]]
    #: The shape of the request body; None without a body.
    body: type[BaseModel] | None = None
    #: The shape of the query; None without parameters.
    query: type[BaseModel] | None = None
    #: The error text of an operation that is refused for every caller; empty if it is supported.
    refused: str = ""

    def __call__(self, desk: Desk, call: Call) -> Awaitable[Answer]:
        return self.carry_out(desk, call)


def takes(
    shape: type[Shape], *, check: Callable[[bytes], None] | None = None
) -> Callable[[Callable[[Desk, Call, Shape], Awaitable[Answer]]], Operation[Desk, Call]]:
    """Decorate a handler that is called with the parsed body. A body of another shape raises Invalid.

    `check` gets the body before it is parsed, and may raise Invalid.
    """

    def of(handle: Callable[[Desk, Call, Shape], Awaitable[Answer]]) -> Operation[Desk, Call]:
        def carry_out(desk: Desk, call: Call) -> Awaitable[Answer]:
            if check is not None:
                check(call.body)
            return handle(desk, call, parse(shape, call.body))

        return Operation(carry_out, body=shape)

    return of

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


Context = TypeVar("Context")
Request = TypeVar("Request", bound=WithBody)
Shape = TypeVar("Shape", bound=BaseModel)


class Operation(Struct, Generic[Context, Request], frozen=True):
    """A handler, and the shapes of its requests."""

    #: Handles one request, with the dialect's context and the request.
    handle: Callable[[Context, Request], Awaitable[Answer]]
    #: The shape of the request body; None without a body.
    body: type[BaseModel] | None = None
    #: The shape of the query; None without parameters.
    query: type[BaseModel] | None = None
    #: The error text of an operation that is refused for every caller; empty if it is supported.
    refused: str = ""

    def __call__(self, context: Context, request: Request) -> Awaitable[Answer]:
        return self.handle(context, request)


def takes(
    shape: type[Shape], *, check: Callable[[bytes], None] | None = None
) -> Callable[[Callable[[Context, Request, Shape], Awaitable[Answer]]], Operation[Context, Request]]:
    """Decorate a handler that is called with the parsed body. A body of another shape raises Invalid.

    `check` gets the body before it is parsed, and may raise Invalid.
    """

    def of(handle: Callable[[Context, Request, Shape], Awaitable[Answer]]) -> Operation[Context, Request]:
        def carry_out(context: Context, request: Request) -> Awaitable[Answer]:
            if check is not None:
                check(request.body)
            return handle(context, request, parse(shape, request.body))

        return Operation(carry_out, body=shape)

    return of

"""Forms that place orders. A form that is sent twice places its order once.

The results of the latest orders, and the previews that orders name, are in memory. After a restart of the server, an
order whose form is sent again is checked against the state of the jobs, as every order is; a form of an earlier preview
shows a new preview and orders nothing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Annotated, TypeVar
from uuid import uuid4

from pydantic import Field

from batchq.api.http import RequestQuery
from batchq.domain.access.accounts import Caller

MAX_INVOCATIONS = 1024
MAX_KEPT = 32  # previews and results
Kept = TypeVar("Kept")
_Key = tuple[str, str]


class Form(RequestQuery):
    """The members of every form that orders something."""

    invocation: Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]


class Invocations:
    """The results of the latest orders: the path of the page that shows each.

    In memory: after a restart of the server, an order whose form is sent again is checked against the state of the
    jobs, as every order is.
    """

    def __init__(self) -> None:
        self._results: OrderedDict[_Key, asyncio.Future[str]] = OrderedDict()

    async def once(self, caller: Caller, form: Form, order: Callable[[], Awaitable[str]]) -> str:
        """The result of `order`, which runs unless the caller sent the same form before. After an error it runs again.

        A form that is changed after its order, as by a browser that goes back, is another order.
        """
        key = (str(caller.user), sha256(form.model_dump_json().encode()).hexdigest())
        while (earlier := self._results.get(key)) is not None:
            await asyncio.wait([earlier])
            if not earlier.cancelled():
                return earlier.result()
        result = self._begin(key)
        try:
            result.set_result(await order())
        finally:
            if not result.done():
                self._results.pop(key, None)
                result.cancel()
        return result.result()

    def _begin(self, key: _Key) -> asyncio.Future[str]:
        if len(self._results) >= MAX_INVOCATIONS:
            self._results.popitem(last=False)
        result = asyncio.get_running_loop().create_future()
        self._results[key] = result
        return result


class RecentResults:
    """The latest previews and results by user and invocation, in memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[type, str, str], object] = OrderedDict()

    def keep(self, caller: Caller, invocation: str, value: object) -> None:
        self._kept[type(value), caller.user, invocation] = value
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def find(self, kind: type[Kept], caller: Caller, invocation: str) -> Kept | None:
        found = self._kept.get((kind, caller.user, invocation))
        return found if isinstance(found, kind) else None


def new_invocation() -> str:
    """The invocation of a form that is shown."""
    return str(uuid4())

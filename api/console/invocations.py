"""Orders of forms, by the random invocation that each form carries: a form that is sent twice orders once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Annotated
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from batchq.domain.access.accounts import Caller

MAX_INVOCATIONS = 1024
_Key = tuple[str, str]


class Form(BaseModel):
    """The members of every form that orders something."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


def new_invocation() -> str:
    """The invocation of a form that is shown."""
    return str(uuid4())

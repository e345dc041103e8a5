"""Forms that place orders. A form that is sent twice places its order once.

The results of the latest orders, and the previews that orders name, are in memory. After a restart of the server, an
order whose form is sent again is checked against the state of the jobs, as every order is; a form of an earlier preview
shows a new preview and orders nothing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Generic, TypeVar
from uuid import uuid4

from msgspec import Struct, field
from pydantic import Field

from batchq.api.http.http import RequestQuery
from batchq.domain.access.accounts import Caller

MAX_INVOCATIONS = 64  # results of orders of one user
MAX_KEPT = 8  # previews and results of one user; a preview has 5,000 ids, and 8 bytes of each job
MAX_ALL_INVOCATIONS, MAX_ALL_KEPT = 4096, 256  # of all users
Kept = TypeVar("Kept")
Value = TypeVar("Value")


def new_invocation() -> str:
    """The invocation of a form that is shown."""
    return str(uuid4())


class Form(RequestQuery):
    """The members of every form that orders something."""

    invocation: Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]


class FormState(Struct, frozen=True, kw_only=True):
    """The state of a form on its page: new, or refused with the values that the user gave."""

    #: As it was sent; None: it is new.
    form: Form | None = None
    #: Why it was refused; empty: it is new.
    error: str = ""
    #: Of the page.
    status: HTTPStatus = HTTPStatus.OK
    #: Of the next order.
    invocation: str = field(default_factory=new_invocation)

    @property
    def values(self) -> dict[str, object]:
        """The variables of the template."""
        return {"form": self.form, "error": self.error, "invocation": self.invocation}


class PerUser(Generic[Value]):
    """The latest values of each user, so that no user displaces those of another one.

    Beyond `in_all` values of all users together, the user who has the most loses the oldest one.
    """

    def __init__(self, *, of_user: int, in_all: int) -> None:
        self._of_user = of_user
        self._in_all = in_all
        #: Of each user with values, the oldest value first.
        self._values: dict[str, OrderedDict[Hashable, Value]] = {}

    def find(self, user: str, key: Hashable) -> Value | None:
        own = self._values.get(user)
        return None if own is None else own.get(key)

    def keep(self, user: str, key: Hashable, value: Value) -> None:
        """Store a value, as the newest one of the user."""
        own = self._values.setdefault(user, OrderedDict())
        own[key] = value
        own.move_to_end(key)
        if len(own) > self._of_user:
            own.popitem(last=False)
        if sum(map(len, self._values.values())) > self._in_all:
            most = max(self._values, key=lambda text: len(self._values[text]))
            self.drop(most, next(iter(self._values[most])))

    def drop(self, user: str, key: Hashable) -> None:
        """Remove a value. A missing one is ignored."""
        own = self._values.get(user, OrderedDict())
        own.pop(key, None)
        if not own:
            self._values.pop(user, None)


class Invocations:
    """The results of the latest orders: the path of the page that shows each.

    In memory: after a restart of the server, an order whose form is sent again is checked against the state of the
    jobs, as every order is.
    """

    def __init__(self) -> None:
        self._results = PerUser[asyncio.Future[str]](of_user=MAX_INVOCATIONS, in_all=MAX_ALL_INVOCATIONS)

    async def once(self, caller: Caller, path: str, form: Form, order: Callable[[], Awaitable[str]]) -> str:
        """The result of `order`, which runs unless the caller sent the same form to `path` before.

        After an error it runs again. A form that is changed after its order, as by a browser that goes back, is another
        order.
        """
        key = path, sha256(form.model_dump_json().encode()).hexdigest()
        while (earlier := self._results.find(caller.user, key)) is not None:
            await asyncio.wait([earlier])
            if not earlier.cancelled():
                return earlier.result()
        result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._results.keep(caller.user, key, result)
        try:
            result.set_result(await order())
        finally:
            if not result.done():
                self._results.drop(caller.user, key)
                result.cancel()
        return result.result()


class RecentResults:
    """The latest previews and results by user and invocation, in memory."""

    def __init__(self) -> None:
        self._kept = PerUser[object](of_user=MAX_KEPT, in_all=MAX_ALL_KEPT)

    def keep(self, caller: Caller, invocation: str, value: object) -> None:
        self._kept.keep(caller.user, (type(value), invocation), value)

    def find(self, kind: type[Kept], caller: Caller, invocation: str) -> Kept | None:
        found = self._kept.find(caller.user, (kind, invocation))
        return found if isinstance(found, kind) else None

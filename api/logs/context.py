"""What an operation works with: the server it stands in, and the one request before it."""

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct

from batchq.api.logs.arns import Arns
from batchq.api.page_tokens import Tokens
from batchq.domain.access.accounts import Caller
from batchq.logs.service import Logs

Answer = Mapping[str, object]


class Desk(Struct, frozen=True, kw_only=True):
    """The same for every request. `region` is that of callers who name none; `since` is said to be the group's age."""

    logs: Logs
    account: str
    region: str
    tokens: Tokens
    since: datetime


class Call(Struct, frozen=True, kw_only=True):
    """One request, and who makes it. `gone` is whether its client has gone away."""

    body: bytes
    gone: Callable[[], bool]
    caller: Caller
    arns: Arns

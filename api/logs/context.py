"""What an operation works with: the server it stands in, and the one request before it."""

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct

from batchq.api.logs.arns import LogArns
from batchq.api.page_tokens import PageTokens
from batchq.domain.access.accounts import Caller
from batchq.logs.service import LogService

Answer = Mapping[str, object]


class LogsContext(Struct, frozen=True, kw_only=True):
    """The same for every request. `region` is that of callers who name none; `since` is said to be the group's age."""

    logs: LogService
    account: str
    region: str
    tokens: PageTokens
    since: datetime


class LogsRequest(Struct, frozen=True, kw_only=True):
    """One request, and who makes it. `gone` is whether its client has gone away."""

    body: bytes
    gone: Callable[[], bool]
    caller: Caller
    arns: LogArns

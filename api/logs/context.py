"""The arguments of a handler: the context, which is the same for every request, and the request."""

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import Struct

from batchq.api.logs.arns import LogArns
from batchq.api.page_tokens import PageTokens
from batchq.domain.access.accounts import Caller
from batchq.logs.service import LogService

Answer = Mapping[str, object]


class LogsContext(Struct, frozen=True, kw_only=True):
    """The services and settings that handlers use; the same for every request."""

    logs: LogService
    #: The account id in ARNs.
    account: str
    #: The region of callers whose requests name none.
    region: str
    tokens: PageTokens
    #: Reported as the creation time of the log group.
    since: datetime


class LogsRequest(Struct, frozen=True, kw_only=True):
    """One request, with its caller."""

    body: bytes
    #: Whether the client has disconnected.
    gone: Callable[[], bool]
    caller: Caller
    arns: LogArns

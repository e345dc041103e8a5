"""What a handler works with: the server it stands in, and the one request before it."""

from hashlib import sha256

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from batchq.api.authentication import scope
from batchq.api.batch.arns import BatchArns
from batchq.api.batch.server_limits import Rules
from batchq.api.http import read
from batchq.api.page_tokens import PageTokens
from batchq.domain.access.accounts import Caller
from batchq.ports.clock import Clock
from batchq.ports.jobs import SubmissionKey
from batchq.services.catalog import CatalogService
from batchq.services.jobs import JobService

Answer = dict[str, object]


class BatchContext(Struct, frozen=True, kw_only=True):
    """The same for every request. `region` is that of callers who name none."""

    jobs: JobService
    catalog: CatalogService
    clock: Clock
    account: str
    region: str
    tokens: PageTokens
    rules: Rules


class BatchRequest(Struct, frozen=True, kw_only=True):
    """One request, and who makes it. `arn` and `keys` are of the path and the query, for the operations on tags."""

    body: bytes
    caller: Caller
    arns: BatchArns
    key: SubmissionKey | None
    arn: str
    keys: tuple[str, ...]


async def call(request: web.Request, desk: BatchContext, caller: Caller) -> BatchRequest:
    body = await read(request)
    said = scope(request.headers.get("Authorization", ""))
    return BatchRequest(
        body=body,
        caller=caller,
        arns=BatchArns(account=desk.account, region=said.region or desk.region),
        key=_key(request.headers.get("amz-sdk-invocation-id"), caller.key or said.access_key, body),
        arn="",
        keys=(),
    )


async def call_about(request: web.Request, desk: BatchContext, caller: Caller) -> BatchRequest:
    """Of an operation in whose path the ARN is."""
    said = await call(request, desk, caller)
    return replace(said, arn=request.match_info["arn"], keys=tuple(request.query.getall("tagKeys", ())))


def _key(invocation: str | None, principal: str, body: bytes) -> SubmissionKey | None:
    """AWS's SDKs mark every call, and repeat the mark when they repeat the call."""
    if not invocation:
        return None
    return SubmissionKey(principal=principal, invocation_id=invocation, body_sha256=sha256(body).hexdigest())

"""What a handler works with: the server it stands in, and the one request before it."""

from dataclasses import dataclass
from hashlib import sha256

from aiohttp import web

from api.batch.arns import Arns
from api.batch.translate.rules import Rules
from api.caller import Caller, caller
from api.http import read
from api.tokens import Tokens
from batchq.catalog import Catalog
from batchq.ports import Clock
from batchq.service import JobService
from batchq.values import SubmissionKey

Answer = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The same for every request. `region` is that of callers who name none."""

    jobs: JobService
    catalog: Catalog
    clock: Clock
    account: str
    region: str
    tokens: Tokens
    rules: Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `arn` and `keys` are of the path and the query, for the operations on tags."""

    body: bytes
    arns: Arns
    key: SubmissionKey | None
    arn: str
    keys: tuple[str, ...]


async def call(request: web.Request, desk: Desk) -> Call:
    body = await read(request)
    who = caller(request.headers.get("Authorization", ""))
    return Call(
        body=body,
        arns=Arns(account=desk.account, region=who.region or desk.region),
        key=_key(request.headers.get("amz-sdk-invocation-id"), who, body),
        arn=request.match_info.get("arn", ""),
        keys=tuple(request.query.getall("tagKeys", ())),
    )


def _key(invocation: str | None, who: Caller, body: bytes) -> SubmissionKey | None:
    """AWS's SDKs mark every call, and repeat the mark when they repeat the call."""
    if not invocation:
        return None
    return SubmissionKey(principal=who.access_key, invocation_id=invocation, body_sha256=sha256(body).hexdigest())

"""The arguments of a handler: the context, which is the same for every request, and the request."""

from hashlib import sha256

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from batchq.api.auth.authentication import Credential, parse_credential
from batchq.api.batch.arns import BatchArns
from batchq.api.http.http import read_body
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.ports.jobs import SubmissionKey

Answer = dict[str, object]


STRICT = "x-batchq-strict"  # the header of a SubmitJob that is refused instead of accepted with a warning


class BatchRequest(Struct, frozen=True, kw_only=True):
    """One request, with its caller."""

    body: bytes
    caller: Caller
    arns: BatchArns
    #: Identifies a repeated SubmitJob; None if the client sent no invocation id.
    key: SubmissionKey | None
    #: The ARN in the path, for the operations on tags; else empty.
    arn: str
    #: The values of `tagKeys` in the query, for UntagResource; else empty.
    keys: tuple[str, ...]
    #: Whether SubmitJob refuses a job that no compute environment could hold: the header STRICT is `true`.
    strict: bool = False


async def read_request(request: web.Request, context: Parts, caller: Caller) -> BatchRequest:
    body = await read_body(request)
    credential = parse_credential(request.headers.get("Authorization", ""))
    return BatchRequest(
        body=body,
        caller=caller,
        arns=BatchArns(account=context.account, region=credential.region or context.region),
        key=submission_key(request.headers.get("amz-sdk-invocation-id"), _principal(caller, credential), body),
        arn="",
        keys=(),
        strict=request.headers.get(STRICT, "").lower() == "true",
    )


async def read_tag_request(request: web.Request, context: Parts, caller: Caller) -> BatchRequest:
    """As `read_request`, for an operation with an ARN in its path."""
    plain = await read_request(request, context, caller)
    return replace(plain, arn=request.match_info["arn"], keys=tuple(request.query.getall("tagKeys", ())))


def _principal(caller: Caller, credential: Credential) -> str:
    """The scope in which an invocation id is unique: an access key, or a user of the unix socket."""
    return f"uid {caller.uid}" if caller.uid is not None else caller.key or credential.access_key


def submission_key(invocation: str | None, principal: str, body: bytes) -> SubmissionKey | None:
    """AWS: SDKs send an id with every call, and the same id when they retry the call."""
    if not invocation:
        return None
    return SubmissionKey(principal=principal, invocation_id=invocation, body_sha256=sha256(body).hexdigest())

"""The request as handlers of AWS Batch's operations get it."""

from hashlib import sha256

from msgspec import Struct
from pydantic import BaseModel

from batchq.api.auth.authentication import Credential, parse_credential
from batchq.api.batch.arns import BatchArns
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.ports.jobs import SubmissionKey

Answer = dict[str, object]


STRICT = "x-batchq-strict"  # the header of a SubmitJob that is refused instead of accepted with a warning


class BatchRequest(Struct, frozen=True, kw_only=True):
    """One request, with its caller."""

    #: The parsed body; None without one.
    input: BaseModel | None
    caller: Caller
    arns: BatchArns
    #: Identifies a repeated SubmitJob; None if the client sent no invocation id.
    key: SubmissionKey | None = None
    #: The ARN in the path, for the operations on tags; else empty.
    arn: str = ""
    #: The values of `tagKeys` in the query, for UntagResource; else empty.
    keys: tuple[str, ...] = ()
    #: Whether SubmitJob refuses a job that no compute environment could hold: the header STRICT is `true`.
    strict: bool = False


def batch_request(parts: Parts, call: Call[BaseModel | None]) -> BatchRequest:
    http, arn = call.http, call.path.get("arn", "")
    credential = parse_credential(http.headers.get("Authorization", ""))
    return BatchRequest(
        input=call.input,
        caller=call.caller,
        arns=BatchArns(account=parts.account, region=credential.region or parts.region),
        key=submission_key(http.headers.get("amz-sdk-invocation-id"), _principal(call.caller, credential), call.body),
        arn=arn,
        keys=tuple(http.query.getall("tagKeys", ())) if arn else (),
        strict=http.headers.get(STRICT, "").lower() == "true",
    )


def _principal(caller: Caller, credential: Credential) -> str:
    """The scope in which an invocation id is unique: an access key, or a user of the unix socket."""
    return f"uid {caller.uid}" if caller.uid is not None else caller.key or credential.access_key


def submission_key(invocation: str | None, principal: str, body: bytes) -> SubmissionKey | None:
    """AWS: SDKs send an id with every call, and the same id when they retry the call."""
    if not invocation:
        return None
    return SubmissionKey(principal=principal, invocation_id=invocation, body_sha256=sha256(body).hexdigest())

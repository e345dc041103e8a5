"""The request as handlers of AWS Batch's operations get it."""

from msgspec import Struct
from pydantic import BaseModel

from batchq.api.auth.authentication import Credential
from batchq.api.batch.arns import BatchArns
from batchq.domain.access.accounts import Caller

Answer = dict[str, object]


STRICT = "x-batchq-strict"  # the header of a SubmitJob that is refused instead of accepted with a warning


class BatchRequest(Struct, frozen=True, kw_only=True):
    """One request, with its caller."""

    #: The parsed body; None without one.
    input: BaseModel | None
    caller: Caller
    arns: BatchArns
    #: AWS: SDKs send an id with every call, and the same id when they retry the call. None: the client sent no id.
    invocation: str | None = None
    #: The scope in which an invocation id is unique.
    principal: str = ""
    #: As it was sent, if the request has an invocation id; else empty.
    body: bytes = b""
    #: The ARN in the path, for the operations on tags; else empty.
    arn: str = ""
    #: The values of `tagKeys` in the query, for UntagResource; else empty.
    keys: tuple[str, ...] = ()
    #: Whether SubmitJob refuses a job that no compute environment could hold: the header STRICT is `true`.
    strict: bool = False


def principal_of(caller: Caller, credential: Credential) -> str:
    """The scope in which an invocation id is unique: an access key, or a user of the unix socket."""
    return f"uid {caller.uid}" if caller.uid is not None else caller.key or credential.access_key

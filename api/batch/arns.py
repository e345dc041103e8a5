"""Names and ARNs of resources. Names are unique in the server.

ARNs in responses have the caller's region; the region of an ARN in a request is ignored.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from uuid import NAMESPACE_URL, UUID, uuid5

from msgspec import Struct

from batchq.api.batch import validation
from batchq.domain.ids import DefinitionRef, JobId, QueueName, Tag
from batchq.errors import Invalid, NotFound


class ArnKind(StrEnum):
    """The kinds of resources that have ARNs, as an ARN spells them."""

    ENVIRONMENT = "compute-environment"
    QUEUE = "job-queue"
    DEFINITION = "job-definition"
    JOB = "job"
    POLICY = "scheduling-policy"
    CONSUMABLE = "consumable-resource"


CACHED_UUIDS = 128  # compute environments whose UUIDs are cached

_ARN = re.compile(r"arn:aws[a-z-]*:batch:[a-z0-9-]*:(?P<account>\d*):(?P<kind>[a-z-]+)/(?P<name>[^/]+)")
_DEFINITION = re.compile(r"(?P<name>[A-Za-z0-9_-]{1,128})(?::(?P<revision>[1-9][0-9]{0,8}))?")
_JOB = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?P<member>[:#][0-9]{1,5})?")


class BatchArns(Struct, frozen=True, kw_only=True):
    """Formats and parses ARNs for one caller."""

    #: The account id of the server.
    account: str
    #: The region of the caller's credential, or the server's.
    region: str

    def environment(self, name: str) -> str:
        return self._batch(ArnKind.ENVIRONMENT, name)

    def queue(self, name: str) -> str:
        return self._batch(ArnKind.QUEUE, name)

    def definition(self, ref: DefinitionRef) -> str:
        return self._batch(ArnKind.DEFINITION, str(ref))

    def job(self, job_id: JobId) -> str:
        return self._batch(ArnKind.JOB, job_id)

    def policy(self, name: str) -> str:
        return self._batch(ArnKind.POLICY, name)

    def consumable(self, name: str) -> str:
        return self._batch(ArnKind.CONSUMABLE, name)

    def task(self, tag: Tag) -> str:
        return self._ecs(f"task/batchq/{tag.task_id}")

    def instance(self, environment: str) -> str:
        """AWS: the ARN of a machine of the environment. Here an environment has one machine."""
        return self._ecs(f"container-instance/batchq/{_uuid(environment).hex}")

    def cluster(self, environment: str) -> str:
        return self._ecs(f"cluster/AWSBatch-{environment}-{_uuid(environment)}")

    def named(self, kind: ArnKind, text: str) -> str | None:
        """The name in `text`, which is a name or an ARN; None for an ARN that is not of a resource of this kind.

        A name is not validated. Raises Invalid for an ARN of another account.
        """
        if not text.startswith("arn:"):
            return text
        found = self.resource(text)
        return found[1] if found is not None and found[0] is kind else None

    def required_name(self, kind: ArnKind, text: str, *, member: str) -> str:
        """As `named`, for a request that changes or describes one resource. `member`: the request's, for the error.

        Raises Invalid for an empty text, and NotFound for an ARN that is not of a resource of this kind.
        """
        name = self.named(kind, validation.required(text, member))
        if name is None:
            raise NotFound(f"{kind.title().replace('-', '')} {text} not found.")
        return name

    def queue_named(self, text: str) -> QueueName:
        """The job queue that the member jobQueue of a request names. Raises as `required_name`."""
        return QueueName(self.required_name(ArnKind.QUEUE, text, member="jobQueue"))

    def listed(self, kind: ArnKind, text: str) -> str | None:
        """As `named`, but None for an ARN of another account: AWS omits unknown resources from lists."""
        return None if self._is_foreign(text) else self.named(kind, text)

    def all_named(self, kind: ArnKind, texts: Iterable[str]) -> tuple[str, ...]:
        """The names in those of the names and ARNs that can exist here, in order, each once."""
        return tuple(dict.fromkeys(name for text in texts if (name := self.listed(kind, text)) is not None))

    def definition_named(self, text: str) -> tuple[str, int | None] | None:
        """The name and revision (None if absent) in the name or ARN of a job definition; None if it is neither.

        Raises Invalid for an ARN of another account.
        """
        name = self.named(ArnKind.DEFINITION, text)
        return None if name is None else revision_of(name)

    def resource(self, arn: str) -> tuple[ArnKind, str] | None:
        """The kind and name in `arn`; None if nothing here can have it. Raises Invalid for one of another account."""
        parts = _ARN.fullmatch(arn)
        if parts is None or not parts["account"] or parts["kind"] not in set(ArnKind):
            return None
        if parts["account"] != self.account:
            raise Invalid(f"{arn} is of account {parts['account']}, and this server's account is {self.account}.")
        return ArnKind(parts["kind"]), parts["name"]

    def _is_foreign(self, text: str) -> bool:
        parts = _ARN.fullmatch(text) if text.startswith("arn:") else None
        return parts is not None and parts["account"] != self.account

    def _batch(self, kind: ArnKind, name: str) -> str:
        return f"arn:aws:batch:{self.region}:{self.account}:{kind}/{name}"

    def _ecs(self, what: str) -> str:
        return f"arn:aws:ecs:{self.region}:{self.account}:{what}"


@lru_cache(CACHED_UUIDS)
def _uuid(environment: str) -> UUID:
    """A UUID that depends on the name only."""
    return uuid5(NAMESPACE_URL, environment)


def revision_of(text: str) -> tuple[str, int | None] | None:
    """Parse `name` or `name:revision`; None for any other text."""
    parts = _DEFINITION.fullmatch(text)
    if parts is None:
        return None
    return parts["name"], None if parts["revision"] is None else int(parts["revision"])


def is_job_id(text: str) -> bool:
    """Whether `text` has the format of the id of a job, a child of an array, or a node."""
    return _JOB.fullmatch(text) is not None


def to_job_id(text: str | None) -> JobId | None:
    """`text` as the id of a job; None if it does not have the format of one."""
    return JobId(text) if text is not None and is_job_id(text) else None


def is_member_id(text: str) -> bool:
    """Whether `text` has the format of the id of a child of an array, or of a node."""
    parts = _JOB.fullmatch(text)
    return parts is not None and parts["member"] is not None

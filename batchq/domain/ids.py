"""Identifiers of jobs, children, nodes, requests and containers; names of log streams, pages and tags. Pure."""

import re
from functools import lru_cache
from hashlib import sha1
from typing import NewType
from uuid import UUID

from msgspec import Struct

JobId = NewType("JobId", str)
QueueName = NewType("QueueName", str)
ConsumableName = NewType("ConsumableName", str)
MachineName = NewType("MachineName", str)
ContainerEngineName = NewType("ContainerEngineName", str)
GroupId = NewType("GroupId", str)

HASH_CACHE_SIZE = 4096  # cached hashes: a client that polls its jobs needs the same ones again and again
KEY_CACHE_SIZE = 4096  # cached keys of containers: a key is parsed with each event of its container
SHORT_ID = 8  # digits of a job's id that a terminal or a page shows
DEFAULT_CONTAINER = "default"  # AWS's name of a container without a name of its own
ENGINE_TAG = "batchq:engine"  # a tag of compute environments: the container engine for its jobs
LABEL_TAG = "batchq:label:"  # begins a tag of compute environments for each label that their machines must have
MAX_DIGITS = 18  # more than any index of a child or a node has
#: The namespace of the version-5 UUIDs.
_TASKS = UUID("5f1c9d0e-3c53-4b7a-9a53-0b9c1f6b2f5e").bytes


_REVISION = re.compile(r"([A-Za-z0-9_-]{1,128}):([1-9][0-9]{0,8})")


class DefinitionRef(Struct, frozen=True, kw_only=True, order=True, omit_defaults=True):
    """A revision of a job definition, written `NAME:REVISION`."""

    name: str
    revision: int

    def __str__(self) -> str:
        return f"{self.name}:{self.revision}"

    @classmethod
    def parse(cls, text: str) -> "DefinitionRef | None":
        """The revision that a text names; None for any other text."""
        parts = _REVISION.fullmatch(text)
        return None if parts is None else cls(name=parts[1], revision=int(parts[2]))


class Tag(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The identity of one container of one attempt of a job."""

    job_id: JobId
    #: The number of the attempt, from 1.
    attempt: int
    #: `NODE/CONTAINER`, as `3/sidecar`; empty for the container of a job that was submitted as a single container.
    container_key: str = ""

    def __str__(self) -> str:
        return (
            f"{self.job_id}/{self.attempt}/{self.container_key}"
            if self.container_key
            else f"{self.job_id}/{self.attempt}"
        )

    @property
    def node(self) -> int:
        """The index of its node."""
        return node_of_key(self.container_key)

    @property
    def container(self) -> str:
        """Its name in its task."""
        return name_of_key(self.container_key)

    @property
    def log_id(self) -> str:
        """The id of the container's log: 32 hex digits, derived from the tag, so it is not stored."""
        return _hex(str(self))

    @property
    def task_id(self) -> str:
        """The id of the ECS task: one for each attempt of each node, shared by the containers of the task.

        The first attempt has the job's id: `ID_INDEX` for the child `ID:INDEX` of an array, because AWS's names of log
        streams have no colons, and `ID#NODE` for all nodes but node 0. Later attempts have 32 hex digits.
        """
        if self.attempt == 1:
            own = self.job_id.replace(":", "_")
            return f"{own}#{self.node}" if self.node else own
        return _hex(f"{self.job_id}/{self.attempt}/{self.node}") if self.container_key else self.log_id


@lru_cache(KEY_CACHE_SIZE)
def node_of_key(container_key: str) -> int:
    """The index of the node in a `Tag.container_key`."""
    return int(container_key.partition("/")[0] or 0)


@lru_cache(KEY_CACHE_SIZE)
def name_of_key(container_key: str) -> str:
    """The name of the container in a `Tag.container_key`."""
    return container_key.partition("/")[2] or DEFAULT_CONTAINER


class SubmissionKey(Struct, frozen=True, kw_only=True):
    """The idempotency key of a SubmitJob request: a retry by the client's SDK has the same key."""

    #: The caller.
    principal: str
    #: The header `amz-sdk-invocation-id` of the request.
    invocation_id: str
    #: SHA-256 of the request body, in hexadecimal digits.
    body_sha256: str


def stream_name(definition_name: str, tag: Tag) -> str:
    """The name of a container's log stream. AWS: `DEFINITION/CONTAINER/TASK_ID`."""
    return f"{definition_name[:200]}/{tag.container}/{tag.task_id}"


def child_id(parent: JobId, index: int) -> JobId:
    """The id of an array's child: `ID:INDEX`."""
    return JobId(f"{parent}:{index}")


def node_id(job_id: JobId, node: int) -> JobId:
    """The id of a node: `ID#NODE`."""
    return JobId(f"{job_id}#{node}")


def container_id(job_id: JobId, name: str) -> JobId:
    """The id under which an order for one container of a task is reported: `ID.CONTAINER`."""
    return JobId(f"{job_id}.{name}")


def node_of(job_id: JobId) -> tuple[JobId, int | None]:
    """The job of an id, and the node if the id is `ID#NODE`, else None."""
    whole, mark, node = job_id.rpartition("#")
    return (JobId(whole), int(node)) if mark and _is_number(node) else (job_id, None)


def parent_of(job_id: JobId) -> tuple[JobId, int] | None:
    """The array and the index if the id is that of a child, `ID:INDEX`, else None."""
    parent, mark, index = job_id.rpartition(":")
    return (JobId(parent), int(index)) if mark and _is_number(index) else None


@lru_cache(HASH_CACHE_SIZE)
def _hex(name: str) -> str:
    """The digits of `uuid.uuid5`, in a fifth of its time."""
    digits = sha1(_TASKS + name.encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:12]}5{digits[13:16]}{'89ab'[int(digits[16], 16) % 4]}{digits[17:32]}"


def _is_number(text: str) -> bool:
    """Whether the text can be an index. Bounded, because `int` refuses thousands of digits."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def short_id(job_id: str) -> str:
    """The first digits of an id, with the step of a child or node: `8f2c51a7:3`."""
    return job_id[:SHORT_ID] + job_id[36:]


def job_path(job_id: str) -> str:
    """The path in the web console of a job, a child of an array, or a node. A URL cannot have the `#` of a node."""
    whole, _, node = job_id.partition("#")
    return f"/ui/jobs/{whole}/nodes/{node}" if node else f"/ui/jobs/{whole}"


def group_path(group_id: str) -> str:
    """The path of a group in the web console."""
    return f"/ui/groups/{group_id}"

"""The job definition that is registered for an image, by the command line and by the web console.

There is one for each image, its volumes and its user, named `cli-IMAGE-HASH`. What changes from job to job is in the
overrides of SubmitJob, so definitions stay few. A name belongs to the user who registered it first, so a definition of
this name may be of another user: it is used only if its content is exactly the one that would be registered.

The functions work on the JSON of AWS Batch. This module imports nothing of the server, because the command line loads
it.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from json import dumps
from typing import Any

DEFAULT_VCPUS, DEFAULT_MEMORY = "1", "1024"  # MEMORY in MiB
MAX_NAME = 100  # characters of the image in a definition's name
# Members of DescribeJobDefinitions for a definition with nothing but an image, its volumes and its user.
_EXPECTED_MEMBERS = {
    "jobDefinitionName",
    "jobDefinitionArn",
    "revision",
    "status",
    "type",
    "parameters",
    "tags",
    "containerOrchestrationType",
    "platformCapabilities",
    "containerProperties",
}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
#: The JSON of a request or a response.
Content = dict[str, Any]
#: A volume: host path, container path, whether it is read-only.
Volume = tuple[str, str, bool]


def container_properties(*, image: str, volumes: Sequence[Volume], user: str | None) -> Content:
    """The containerProperties of the definition."""
    named = [(f"volume-{number}", *it) for number, it in enumerate(volumes, start=1)]
    return {
        "image": image,
        "resourceRequirements": [
            {"type": "VCPU", "value": DEFAULT_VCPUS},
            {"type": "MEMORY", "value": DEFAULT_MEMORY},
        ],
        **({"user": user} if user else {}),
        **({"volumes": [{"name": name, "host": {"sourcePath": host}} for name, host, _, _ in named]} if named else {}),
        **({"mountPoints": [_mount_point(name, path, ro=ro) for name, _, path, ro in named]} if named else {}),
    }


def image_definition_name(image: str, properties: Content, *, owner: str = "") -> str:
    """`cli-IMAGE-HASH`; the hash is that of the content and, if it is given, of the owner's name."""
    digest = sha256(dumps([properties, owner], sort_keys=True).encode()).hexdigest()[:12]
    return f"cli-{short_name(image)[:MAX_NAME]}-{digest}"


def short_name(image: str) -> str:
    """The image's name without registry, tag and digest, with the characters that AWS allows in names."""
    repository = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return _NOT_IN_NAMES.sub("-", repository).strip("-_") or "job"


def equal_revision(revisions: Iterable[Content], name: str, properties: Content) -> str | None:
    """`name:revision` of the newest of these revisions with exactly this content; None without one."""
    equal = [it["revision"] for it in revisions if _content(it) == properties]
    return f"{name}:{max(equal)}" if equal else None


def image_definition(name: str, properties: Content) -> Content:
    """The RegisterJobDefinition request."""
    return {"jobDefinitionName": name, "type": "container", "containerProperties": properties}


def _mount_point(name: str, path: str, *, ro: bool) -> Content:
    return {"sourceVolume": name, "containerPath": path, **({"readOnly": True} if ro else {})}


def _content(definition: Content) -> Content:
    """The containerProperties as they were registered, without the empty lists that the server adds.

    Empty if the definition sets anything else, as a time limit: it would change the job.
    """
    if definition.get("parameters") or not definition.keys() <= _EXPECTED_MEMBERS:
        return {}
    return {member: value for member, value in definition.get("containerProperties", {}).items() if value != []}

"""The job definition that `batchq submit` and `batchq run` register for an image.

There is one for each image, its volumes and its user, named `cli-IMAGE-HASH`. What changes from job to job is in the
overrides of SubmitJob, so definitions stay few. A name belongs to the user who registered it first, so a definition of
this name may be of another user: it is used only if its content is exactly the one that would be registered.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from json import dumps

from batchq.cli.http_client import call
from batchq.cli.server_requests import Content, fetch_active_revisions, send_definition
from batchq.errors import Invalid

DEFAULT_VCPUS, DEFAULT_MEMORY = "1", "1024"  # MEMORY in MiB
MAX_NAME = 100  # characters of the image in a definition's name
_WHO_AM_I = "/v1/batchq/whoami"
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
#: A volume: host path, container path, whether it is read-only.
Volume = tuple[str, str, bool]


def find_or_register(url: str, *, image: str, volumes: Sequence[Volume], user: str | None) -> str:
    """The `name:revision` of the definition for this image. Raises Invalid, and ServerUnavailable."""
    properties = container_properties(image=image, volumes=volumes, user=user)
    name = image_definition_name(image, properties)
    try:
        return _find(url, name, properties) or _register(url, name, properties)
    except Invalid:  # the name belongs to a user of another account, or the image is not allowed
        own = image_definition_name(image, properties, owner=str(call(url, _WHO_AM_I, {}).get("user")))
        return _find(url, own, properties) or _register(url, own, properties)


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


def _mount_point(name: str, path: str, *, ro: bool) -> Content:
    return {"sourceVolume": name, "containerPath": path, **({"readOnly": True} if ro else {})}


def _find(url: str, name: str, properties: Content) -> str | None:
    """The newest active revision with exactly this content; None without one."""
    equal = [it["revision"] for it in fetch_active_revisions(url, name) if _content(it) == properties]
    return f"{name}:{max(equal)}" if equal else None


def _content(definition: Content) -> Content:
    """The containerProperties as they were registered, without the empty lists that the server adds.

    Empty if the definition sets anything else, as a time limit: it would change the job.
    """
    if definition.get("parameters") or not definition.keys() <= _EXPECTED_MEMBERS:
        return {}
    return {member: value for member, value in definition.get("containerProperties", {}).items() if value != []}


def _register(url: str, name: str, properties: Content) -> str:
    return send_definition(url, {"jobDefinitionName": name, "type": "container", "containerProperties": properties})

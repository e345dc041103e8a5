"""The files that a container exchanges with the server: those of its spec, and the text in which it states a failure.

The engine can copy a file out of a container only if it can mount all volumes of the container, and volumes on open
descriptors cannot be mounted again. So the failure file is in a volume of its own, and is copied out of another
container with that volume, which never runs. A sweep removes such a container if a crash left it behind.
"""

import io
import logging
import tarfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import PurePosixPath
from secrets import token_hex

from docker.errors import APIError
from requests.exceptions import RequestException

from batchq.compute.docker import network_objects as objects
from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import FAILURE_FILE, attempt_name, attempt_object_labels, tar_archive
from batchq.compute.docker.errors import NOT_FOUND, create_refused, message_of
from batchq.compute.docker.inspection import labels_of, member
from batchq.domain.container import ContainerSpec
from batchq.domain.ids import Tag
from batchq.errors import BatchqError
from batchq.ports.runtime import MAX_FAILURE

READ = 16 * 1024  # bytes of an archive: its headers, and the longest text in UTF-8
RECEIVE_TIMEOUT = 20.0  # seconds
_TARGET = "/failure"

log = logging.getLogger(__name__)


def upload(client: Client, container_id: str, spec: ContainerSpec) -> None:
    """Write the files and folders of the spec into a container that has not started. May be repeated.

    The engine resolves the paths in the container's own file system, so links of an image lead nowhere else.
    Raises StartRefused.
    """
    hosts = {
        mount.container_path for mount in spec.mounts if mount.host_path is not None
    }  # their permissions are the host's
    folders = [folder for folder in spec.folders if folder not in hosts]
    content = tar_archive({path.path: path.content.encode() for path in spec.files}, folders=folders)
    try:
        client.put_archive(container_id, "/", content)
    except APIError as error:
        if error.status_code == NOT_FOUND:  # the container was removed; the next create finds that out
            raise
        paths = ", ".join([*(path.path for path in spec.files), *folders])
        raise create_refused(f"{paths} could not be written: {message_of(error)}", certain=False) from error


def failure_text(client: Client, inspected: object, *, instance: str, tag: Tag) -> str | None:
    """The first MAX_FAILURE characters of the failure file of an ended container; None without one, or if that fails.

    The end of a container is reported in any case, so errors are logged only.
    """
    path = labels_of(inspected, "Config", "Labels").get(FAILURE_FILE)
    volume = _volume_of(inspected, PurePosixPath(path)) if path else None
    if not path or volume is None:
        return None
    try:
        return _read(client, volume, PurePosixPath(path).name, instance=instance, tag=tag)
    except (APIError, RequestException, BatchqError, tarfile.TarError, OSError) as error:
        log.warning("container %s: the failure file cannot be read: %s", tag, error)
        return None


def _volume_of(inspected: object, path: PurePosixPath) -> str | None:
    """The name of the volume that is mounted at the folder of the path."""
    mounts = member(inspected, "Mounts", of=object)
    for mount in mounts if isinstance(mounts, list) else []:
        if isinstance(mount, dict) and mount.get("Type") == "volume" and mount.get("Destination") == str(path.parent):
            return str(mount.get("Name"))
    return None


def _read(client: Client, volume: str, name: str, *, instance: str, tag: Tag) -> str | None:
    request = {
        "Image": objects.PAUSE_IMAGE,
        "Labels": attempt_object_labels(instance, tag),
        "HostConfig": {
            "NetworkMode": "none",
            "LogConfig": {"Type": "none"},
            "Mounts": [{"Type": "volume", "Source": volume, "Target": _TARGET, "ReadOnly": True}],
        },
    }
    unique = f"{attempt_name(instance, tag)}-failure-{token_hex(4)}"
    container_id = objects.create_pause_container(client, request, unique)
    try:
        url = f"{client.base_url}/v{client.api_version}/containers/{container_id}/archive"
        path = f"{_TARGET}/{name}"
        with closing(client.get_stream(url, {"path": path}, receive_timeout=RECEIVE_TIMEOUT)) as response:
            if not response.ok:
                if response.status_code != NOT_FOUND:  # else the program wrote no such file
                    log.warning("container %s: the failure file cannot be read: %s", tag, response.text)
                return None
            return _text_in(_first_bytes(response.iter_content(READ)))
    finally:
        objects.remove_container(client, {"Id": container_id})


def _first_bytes(chunks: Iterable[bytes]) -> bytes:
    content = b""
    for chunk in chunks:
        content += chunk
        if len(content) >= READ:
            break
    return content[:READ]


def _text_in(archive: bytes) -> str | None:
    """The text of the only file in the beginning of a tar archive; None for a link, a folder or an empty file."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
        entry = opened.next()
        if entry is None or not entry.isreg():
            return None
        content = archive[entry.offset_data : entry.offset_data + min(entry.size, 4 * MAX_FAILURE)]
    return content.decode(errors="replace").replace("\0", "").strip()[:MAX_FAILURE] or None

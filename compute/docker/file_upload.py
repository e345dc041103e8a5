"""Writes the files of a container spec into a container that has not started.

The engine resolves the paths inside the container's own file system, so links of an image lead nowhere else.
"""

import io
import tarfile
from collections.abc import Sequence

from docker.errors import APIError

from batchq.compute.docker.client import Client
from batchq.compute.docker.errors import NOT_FOUND, message_of
from batchq.domain.container import TextFile
from batchq.errors import StartRefused


def upload(client: Client, container_id: str, files: Sequence[TextFile]) -> None:
    """Write the files, owned by root and readable for all. May be repeated. Raises StartRefused.

    The archive has no entries for folders: they would replace links and permissions of the image.
    """
    if not files:
        return
    try:
        client.put_archive(container_id, "/", _archive(files))
    except APIError as error:
        if error.status_code == NOT_FOUND:  # the container was removed; the next create finds that out
            raise
        paths = ", ".join(it.path for it in files)
        reason = f"CannotCreateContainerError: {paths} could not be written: {message_of(error)}"
        raise StartRefused(reason, certain=False) from error


def _archive(files: Sequence[TextFile]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for it in files:
            content = it.content.encode()
            entry = tarfile.TarInfo(it.path.lstrip("/"))
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()

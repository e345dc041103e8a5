"""Requests about containers whose replies need interpretation: creates, removals, lists and states."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from docker.errors import APIError, NotFound

from batchq.compute.docker import podman
from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import INSTANCE, container_name, tag_of
from batchq.compute.docker.errors import message_of, translate_errors
from batchq.compute.docker.inspection import labels_of, member, parse_inspection, reply_rows
from batchq.domain.ids import Tag
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import ContainerState

MAX_LOGGED_WARNINGS = 100

log = logging.getLogger(__name__)

#: The warnings of engines that were logged.
_logged_warnings: set[str] = set()


def send_create(client: Client, config: Mapping[str, Any], *, name: str, platform: str | None) -> str:
    """Send a create request; the id of the container.

    The engine creates the container also if it discards a resource limit, and warns of that in its reply. Each text is
    logged once.
    """
    created: object = client.create_container_from_config(config, name=name, platform=platform)  # type: ignore[no-untyped-call]  # it has no types in the stubs
    warnings = member(created, "Warnings", of=object)
    for text in map(str, warnings if isinstance(warnings, list) else ()):
        if text not in _logged_warnings and len(_logged_warnings) < MAX_LOGGED_WARNINGS:
            _logged_warnings.add(text)
            log.warning("container %s: the engine warns: %s", name, text)
    return member(created, "Id", of=str)


def remove_by_id(client: Client, container_id: str) -> None:
    """Remove a container, running or not, with its anonymous volumes.

    For a running container Podman 5 sends SIGTERM and waits ten seconds, so it is killed first.
    """
    if client.is_podman:
        try:
            client.remove_container(container_id, v=True, force=False)
        except NotFound:
            raise
        except APIError:  # the container runs, or its removal fails for another reason
            with suppress(APIError):
                client.kill(container_id, "SIGKILL")
        else:
            return
    client.remove_container(container_id, v=True, force=True)


def list_instance(client: Client, instance: str, is_own: Callable[[str], bool]) -> list[object]:
    """List the containers of the instance, in any state, without copies (`is_copy`).

    Podman can lose the storage of a container and then refuses every list, until the container is removed. `is_own`
    returns whether batchq created the container with this id: only such a container is removed.
    """
    filters = {"label": f"{INSTANCE}={instance}"}
    try:
        rows: object = client.containers(all=True, filters=filters)
    except APIError as error:
        container_id = podman.lost_record(message_of(error))
        if container_id is None:
            raise
        if not is_own(container_id):
            log.warning("no container can be listed until this command is run: podman rm -f %s", container_id)
            raise
        log.warning("container %s: removed, because the engine has lost its storage", container_id)
        client.remove_container(container_id, v=True, force=True)
        rows = client.containers(all=True, filters=filters)
    return [row for row in reply_rows(rows, "containers") if not is_copy(client, instance, row)]


def is_copy(client: Client, instance: str, row: object) -> bool:
    """Whether a listed container is a copy: not created by batchq, but from the committed image of a job's container.

    `docker commit` copies the labels of the container into the image, but not its name. A container of a job that an
    administrator renamed is not a copy: its image does not have these labels.
    """
    tag = tag_of(labels_of(row, "Labels"), instance)
    names = member(row, "Names", of=object)
    if tag is None or not isinstance(names, list) or f"/{container_name(instance, tag)}" in names:
        return False
    try:
        image: object = client.inspect_image(member(row, "ImageID", of=str))  # type: ignore[no-untyped-call]  # it has no types in the stubs
    except (APIError, RuntimeUnknown):  # the image was removed, or the engine does not name it
        return False
    return tag_of(labels_of(image, "Config", "Labels"), instance) == tag


def resume_if_paused(client: Client, inspected: object) -> None:
    """Resume a container that was sent a signal. Docker itself resumes it; Podman does not."""
    if member(inspected, "State", "Paused", of=object) is True:
        with suppress(APIError):  # it runs already, or has ended; if not, the next kill ends it
            client.unpause(member(inspected, "Id", of=str))


def inspect_state(client: Client, container_id: str, tag: Tag) -> ContainerState:
    """Inspect a container whose state in a list is unknown. If that fails it counts as running, which ends nothing."""
    try:
        with translate_errors("inspect"):
            return parse_inspection(tag, client.inspect_container(container_id)).state
    except RuntimeUnknown as unknown:
        log.warning("container %s: state unknown, counts as running: %s", tag, unknown)
        return ContainerState.RUNNING

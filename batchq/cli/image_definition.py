"""Finds or registers the job definition that `batchq submit` and `batchq run` use for an image."""

from collections.abc import Sequence

from batchq.cli.http_client import call
from batchq.cli.server_requests import Content, fetch_active_revisions, send_definition
from batchq.errors import Invalid
from batchq.services.client_requests import (
    Volume,
    container_properties,
    equal_revision,
    image_definition,
    image_definition_name,
)

_WHO_AM_I = "/v1/batchq/whoami"


def find_or_register(url: str, *, image: str, volumes: Sequence[Volume], user: str | None) -> str:
    """The `name:revision` of the definition for this image. Raises Invalid, and ServerUnavailable."""
    properties = container_properties(image=image, volumes=volumes, user=user)
    name = image_definition_name(image, properties)
    try:
        return _find(url, name, properties) or _register(url, name, properties)
    except Invalid:  # the name belongs to a user of another account, or the image is not allowed
        own = image_definition_name(image, properties, owner=str(call(url, _WHO_AM_I, {}).get("user")))
        return _find(url, own, properties) or _register(url, own, properties)


def _find(url: str, name: str, properties: Content) -> str | None:
    """The newest active revision with exactly this content; None without one."""
    return equal_revision(fetch_active_revisions(url, name), name, properties)


def _register(url: str, name: str, properties: Content) -> str:
    return send_definition(url, image_definition(name, properties))

"""The registry of an image name, and whether an account may use it. Pure.

Names are parsed as Docker parses them: the part before the first slash is a registry if it contains a dot, a colon or a
capital letter, or is `localhost`; otherwise the image is on Docker Hub.
"""

from batchq.domain.access.local_addresses import is_local

DOCKER_HUB = "docker.io"


def registry_of(image: str) -> str:
    """The registry with its port, as `registry.example:5000`."""
    return _full_name(image).partition("/")[0]


def is_permitted(image: str, registries: tuple[str, ...] | None) -> bool:
    """Whether the image is in one of `registries`, each with or without a path. None: any that is not local.

    Only the name is checked, even if the engine has the image already.
    """
    name = _full_name(image)
    if registries is None:
        return not is_local(registry_of(image).partition(":")[0])
    return any(name == it or name.startswith(f"{it}/") for it in map(_lower, registries))


def _full_name(image: str) -> str:
    """The image name with its registry, and without tag and digest."""
    first, slash, path = image.partition("@")[0].partition("/")
    if not (slash and (first == "localhost" or first != first.lower() or any(it in first for it in ".:"))):
        first, path = DOCKER_HUB, first + slash + path
    path = path.partition(":")[0]
    if first.lower() in {DOCKER_HUB, f"index.{DOCKER_HUB}"}:
        first, path = DOCKER_HUB, path if "/" in path else f"library/{path}"
    return f"{first.lower()}/{path}"


def _lower(prefix: str) -> str:
    registry, slash, path = prefix.rstrip("/").partition("/")
    return registry.lower() + slash + path

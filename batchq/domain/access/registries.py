"""The registry that an image's name leads to, and whether an account may use it. Pure.

Names are read as Docker reads them: what stands before the first slash is a registry if it has a dot, a colon or a
capital letter, or is `localhost`; any other image is of Docker Hub.
"""

from batchq.domain.access.local_addresses import is_local

DOCKER_HUB = "docker.io"


def registry_of(image: str) -> str:
    """With its port, as in `registry.example:5000`."""
    return _full_name(image).partition("/")[0]


def is_permitted(image: str, registries: tuple[str, ...] | None) -> bool:
    """Whether it lies in one of these, each a registry or a registry with a path. None: any that is not local.

    The name decides, whether or not the engine has the image already.
    """
    name = _full_name(image)
    if registries is None:
        return not is_local(registry_of(image).partition(":")[0])
    return any(name == it or name.startswith(f"{it}/") for it in map(_lower, registries))


def _full_name(image: str) -> str:
    """With the registry, and without tag and digest."""
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

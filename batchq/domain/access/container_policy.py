"""Checks of requested containers, their images and log drivers against an account's container policy. Pure.

The server's own settings take precedence and are checked where containers are created. Decision 0026.

- Paths are checked as written, with `..` resolved. Where links lead, and the user of an image, are checked at each
  start.
- Image names are parsed as Docker parses them: the part before the first slash is a registry if it contains a dot, a
  colon or a capital letter, or is `localhost`; otherwise the image is on Docker Hub.
- Log drivers run inside the container engine: as root, on the host's network, with the host's files. So an account may
  use only the options in LOG_OPTIONS. The table omits those that name files of the host (`*-tls-*`, `splunk-capath`),
  that make the container engine buffer (`mode`, `max-buffer-size`, `fluentd-async`, `fluentd-buffer-limit`), and that
  make it wait or retry for long. Decision 0031.
- Hosts that lead to the connecting machine itself, or to its cloud's metadata service, are recognised by the spellings
  of their addresses and by well-known names. `batchq.compute.docker.admission` resolves other names.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import PurePosixPath
from socket import inet_aton

from batchq.domain.access.accounts import AccountName, Caller, ContainerPolicy, Owner
from batchq.domain.container import ContainerSpec, Logging
from batchq.domain.task import Nodes
from batchq.errors import Invalid

ENGINES = ("/run/docker.sock", "/run/containerd", "/run/podman")  # gives root on the host
KERNEL = ("/proc", "/sys", "/dev")
LINKED = "/var/run/docker.sock"  # a mount of /var is permitted: /var/run is nearly always a link to /run
# The usual paths of the container engine's socket; at another path only the server knows it.
SOCKETS = frozenset(
    PurePosixPath(f"{var}/run/{name}") for var in ("", "/var") for name in ("docker.sock", "podman/podman.sock")
)
REALTIME = "rtprio"  # a ulimit: real-time processes precede all others of the host, whatever their CPU shares
MAX_ID = 2**31 - 1  # the container engine's largest user or group id
_ID = re.compile(r"0*([1-9][0-9]{0,9})", re.ASCII)
DOCKER_HUB = "docker.io"
_COMMON = frozenset({"tag", "labels", "labels-regex", "env", "env-regex"})
_SPLUNK = "token url source sourcetype index caname insecureskipverify format verify-connection gzip gzip-level"

#: The allowed options of each driver that an account can be given; journald writes to the host's own journal.
LOG_OPTIONS: Mapping[str, frozenset[str]] = {
    "fluentd": _COMMON | {"fluentd-address", "fluentd-sub-second-precision"},
    "gelf": _COMMON | {"gelf-address", "gelf-compression-type", "gelf-compression-level"},
    "journald": _COMMON,
    "splunk": _COMMON | {f"splunk-{part}" for part in _SPLUNK.split()},
    "syslog": _COMMON | {"syslog-address", "syslog-facility", "syslog-format"},
}

#: The option with the target of a driver, and the schemes that it may have, as a regular expression.
_ADDRESS: Mapping[str, tuple[str, str]] = {
    "fluentd": ("fluentd-address", "(tcp://)?"),
    "gelf": ("gelf-address", "(udp|tcp)://"),
    "splunk": ("splunk-url", "https?://"),
    "syslog": ("syslog-address", r"(udp|tcp|tcp\+tls)://"),
}

# Narrower than any URL parser accepts, so that the container engine's parser cannot find another host in it.
_HOST = r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?"

#: The authors of a job, each with the container policy of the account.
AuthorPolicies = Sequence[tuple[Owner, ContainerPolicy]]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

# A template can print any character; the values of these fields contain no line end.
_TAG = re.compile(r"([^{}]|\{\{ *\.(ID|FullID|Name|FullName|ImageID|ImageFullID|ImageName|DaemonName) *\}\})*")


def require_allowed_containers(work: Nodes, caller: Caller) -> None:
    """Raises Invalid for a container that the caller's account may not run, or that no account may run."""
    why = container_refusal(work, caller.container_policy, caller.account)
    if why is not None:
        raise Invalid(why)


def require_allowed_authors(work: Nodes, policies: AuthorPolicies) -> None:
    """Raises Invalid for a container that an author of the job may not run."""
    why = author_refusal(work, policies)
    if why is not None:
        raise Invalid(why)


def exec_refusal(work: Nodes, policy: ContainerPolicy, account: AccountName, *, is_own: bool) -> str | None:
    """Why a user of this account may not run commands in the containers of a running job; None if the user may.

    The policy of another account may have permitted the containers, so this one must permit them too. `is_own`: the
    user started them, and without root's rights if the policy denies these.
    """
    if not policy.exec_allowed:
        return f"Commands in running containers are not allowed to account {account}."
    specs = containers_of(work)
    if not is_own and not policy.permits_root and any(spec.user is None for spec in specs):
        return f"Commands as the user of an image, who may be root, are not allowed to account {account}."
    refusals = (why for spec in specs for why in _beyond(spec, policy))
    return next((f"{why} to account {account}." for why in refusals), None)


def author_refusal(work: Nodes, policies: AuthorPolicies) -> str | None:
    """Why the authors of a job may not run its containers; None if each of them may."""
    return next((why for author, policy in policies for why in _against_author(work, author, policy)), None)


def container_refusal(work: Nodes, allowance: ContainerPolicy | None, account: AccountName) -> str | None:
    """Why the containers may not be started; None if they may. `allowance` None: only what is forbidden for all."""
    return next(_against(work, allowance, account), None)


def user_and_group(user: str) -> str | None:
    """`USER[:GROUP]` as `UID:GID`; without a group the GID is the UID. None if either may be root's.

    A name may be root's: only the image defines it, and users choose the image. Without a group the container engine
    would take root's, and add those that the image lists for the user. The container engine cuts a number above MAX_ID
    in the image's `passwd` or `group` to 32 bits, so 4294967296 is root; it takes a number above 64 bits for a name.
    """
    uid, _, group = user.partition(":")
    numbers = [_number(text) for text in (uid, group or uid)]
    return None if None in numbers else ":".join(map(str, numbers))


def below(path: str, allowed: Iterable[str]) -> bool:
    """Whether the path is one of `allowed` or below one."""
    return any(plain_path(path).is_relative_to(plain_path(text)) for text in allowed)


def is_engine_socket(path: str) -> bool:
    """Whether the path is a usual one of the container engine's socket. Its mount may be refused at the start."""
    return plain_path(path) in SOCKETS


def plain_path(path: str) -> PurePosixPath:
    """The absolute path as written, with `..` resolved. Links are not followed."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts[1:]:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
    return PurePosixPath("/", *parts)


def _number(text: str) -> int | None:
    digits = _ID.fullmatch(text)
    number = int(digits[1]) if digits else None
    return None if number is None or number > MAX_ID else number


def _against(work: Nodes, allowance: ContainerPolicy | None, account: AccountName) -> Iterator[str]:
    for spec in containers_of(work):
        if spec.mounts:
            yield from _never(spec)
        if allowance is not None:
            yield from (f"{why} to account {account}." for why in _beyond(spec, allowance))
    if allowance is not None:
        yield from (f"{why} for a job of account {account}." for why in _too_large(work, allowance))


def _against_author(work: Nodes, author: Owner, policy: ContainerPolicy) -> Iterator[str]:
    for why in _against(work, policy, author.account):
        yield f"{why.removesuffix('.')} of {author.user or 'an unknown user'}, who wrote what the job runs."


def _never(spec: ContainerSpec) -> Iterator[str]:
    for mount in spec.mounts:
        path = mount.host_path
        if path is None or is_engine_socket(path):
            continue
        for never in (*ENGINES, *KERNEL, LINKED):
            if below(path, [never]) or (never != LINKED and below(never, [path])):
                yield f"Host path {path!r} is, holds or lies in {never}, which no job may mount."


def _beyond(spec: ContainerSpec, allowance: ContainerPolicy) -> Iterator[str]:
    if spec.privileged and not allowance.privileged:
        yield "A privileged container is not allowed"
    for device in spec.devices:
        if not below(device.host_path, allowance.devices):
            yield f"Device {device.host_path!r} of the host is not allowed"
    for path in (mount.host_path for mount in spec.mounts if mount.host_path is not None):
        if not (allowance.engine_socket if is_engine_socket(path) else below(path, allowance.volumes)):
            yield f"Host path {path!r} is not allowed"
    if spec.user is not None and not allowance.permits_root and user_and_group(spec.user) is None:
        yield f"User {spec.user!r} of a container, whose user and group are not numbers above 0, is not allowed"
    if any(ulimit.name == REALTIME and ulimit.hard != 0 for ulimit in spec.ulimits) and not allowance.privileged:
        yield f"Ulimit {REALTIME!r} is not allowed"
    yield from log_driver_refusals(spec.logging, allowance.log_drivers)
    if not is_image_permitted(spec.image, allowance.registries):
        yield f"Registry {registry_of(spec.image)!r} of image {spec.image!r} is not allowed"


def _too_large(work: Nodes, allowance: ContainerPolicy) -> Iterator[str]:
    """Why the job as a whole requests too much. Swap counts as memory."""
    requested, swap = work.resources, _swap(work)
    if allowance.vcpus is not None and requested.millicpus > allowance.vcpus * 1000:
        yield f"{requested.millicpus / 1000:g} vCPUs are more than the {allowance.vcpus:g} that are allowed"
    if allowance.memory_mib is not None and requested.memory_mib + swap > allowance.memory_mib:
        memory = f"{requested.memory_mib} MiB of memory" + (f" and {swap} of swap" if swap else "")
        yield f"{memory} are more than the {allowance.memory_mib} that are allowed"


def containers_of(work: Nodes) -> list[ContainerSpec]:
    """The containers of a job, one for each kind of node."""
    return [container.spec for part in work.ranges for container in part.task.containers]


def _swap(work: Nodes) -> int:
    """The swap of all containers of all nodes, in MiB."""
    tasks = (work.task(node) for node in range(work.count))
    return sum(container.spec.max_swap_mib or 0 for task in tasks for container in task.containers)


def registry_of(image: str) -> str:
    """The registry with its port, as `registry.example:5000`."""
    return _full_name(image).partition("/")[0]


def is_image_permitted(image: str, registries: tuple[str, ...] | None) -> bool:
    """Whether the image is in one of `registries`, each with or without a path. None: any that is not local.

    Only the name is checked, even if the container engine has the image already.
    """
    name = _full_name(image)
    if registries is None:
        return not is_local(registry_of(image).partition(":")[0])
    return any(name == text or name.startswith(f"{text}/") for text in map(_lower, registries))


def _full_name(image: str) -> str:
    """The image name with its registry, and without tag and digest."""
    first, slash, path = image.partition("@")[0].partition("/")
    if not (slash and (first == "localhost" or first != first.lower() or any(text in first for text in ".:"))):
        first, path = DOCKER_HUB, first + slash + path
    path = path.partition(":")[0]
    if first.lower() in {DOCKER_HUB, f"index.{DOCKER_HUB}"}:
        first, path = DOCKER_HUB, path if "/" in path else f"library/{path}"
    return f"{first.lower()}/{path}"


def _lower(prefix: str) -> str:
    registry, slash, path = prefix.rstrip("/").partition("/")
    return registry.lower() + slash + path


def log_driver_refusals(logging: Logging, allowed: tuple[str, ...]) -> Iterator[str]:
    """Why an account that may use the drivers `allowed` may not use this logging.

    The values of secret options are not known yet: only their names are checked. `log_option_refusals` checks values.
    """
    if logging.captured:
        return
    driver = logging.driver or ""
    if driver not in allowed:
        yield f"Log driver {driver!r} is not allowed"
        return
    known = dict(logging.options)
    secret = {secret.name for secret in logging.secret_options}
    yield from log_option_refusals(driver, known, named={*known, *secret})


def log_option_refusals(driver: str, options: Mapping[str, str], *, named: set[str] | None = None) -> Iterator[str]:
    """Why an account may not use these options of a driver. No value is quoted, because it may be a secret.

    `named`: the names of all options if the values of some are not known; None: those of `options`.
    """
    names = set(options) if named is None else named
    for name in sorted(names - LOG_OPTIONS.get(driver, frozenset())):
        yield f"Option {name!r} of log driver {driver!r} is not allowed"
    for name, value in options.items():
        if _CONTROL.search(value):
            yield f"A control character in option {name!r} of log driver {driver!r} is not allowed"
    if not _TAG.fullmatch(options.get("tag", "")):
        yield f"A template in option 'tag' of log driver {driver!r}, other than of ids and names, is not allowed"
    if driver not in _ADDRESS:
        return
    option, _ = _ADDRESS[driver]
    if option not in names:
        yield f"Log driver {driver!r} without option {option!r} is not allowed"
    elif option in options:
        host = log_target(driver, options)
        if host is None or is_local(host):
            yield f"Option {option!r} of log driver {driver!r}, unless scheme://host:port elsewhere, is not allowed"


def log_target(driver: str, options: Mapping[str, str]) -> str | None:
    """The host that the driver sends to; None if it sends to none, or if its address has another form."""
    option, scheme = _ADDRESS.get(driver, ("", ""))
    address = re.fullmatch(scheme + _HOST, options.get(option, ""))
    return address["host"] if address else None


Address = IPv4Address | IPv6Address

LOCAL_NAMES = ("localhost", "localdomain", "ip6-localhost", "ip6-loopback")
#: Metadata services of clouds that have no link-local address: AWS (IPv6), Azure, Alibaba.
METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "168.63.129.16", "100.100.100.200")))
_THIS_NETWORK = ip_network("0.0.0.0/8")
_IPV4_COMPATIBLE = ip_network("::/96")


def is_local(host: str) -> bool:
    """Whether the host is written as a loopback, link-local, multicast, unspecified or metadata address, or is local.

    All spellings that the C library accepts are recognised: IPv4 in decimal, octal, hexadecimal and with fewer than
    four parts, IPv4 inside IPv6, IPv6 with a zone. An empty host is local to the container engine's log drivers.
    """
    name = host.strip("[]").partition("%")[0].rstrip(".").lower()
    if not name or name.rpartition(".")[2] in LOCAL_NAMES:
        return True
    address = _parsed(name)
    return address is not None and is_local_address(address)


def is_local_address(address: Address) -> bool:
    """Whether it is a loopback, link-local, multicast, unspecified or metadata address."""
    if isinstance(address, IPv6Address):
        address = _embedded(address) or address
    if isinstance(address, IPv4Address) and address in _THIS_NETWORK:
        return True
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in METADATA
    )


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address inside an IPv6 address, as in `::ffff:127.0.0.1`; None if there is none."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    is_compatible = address in _IPV4_COMPATIBLE and int(address) > 1
    return IPv4Address(int(address)) if is_compatible else None


def _parsed(name: str) -> Address | None:
    try:
        return IPv6Address(name) if ":" in name else IPv4Address(inet_aton(name))
    except (OSError, ValueError):
        return None

"""Checks the target of a container's log driver before the start, by the options that the engine has stored.

Not covered: a name that resolves to another address when the engine resolves it at the start, and a redirect in the
target's reply to the splunk driver.
"""

from contextlib import suppress
from ipaddress import ip_address
from socket import SOCK_STREAM, gaierror, getaddrinfo

from batchq.compute.docker.inspection import member
from batchq.domain.access import log_drivers
from batchq.domain.access.local_addresses import is_local_address
from batchq.domain.catalog import Network
from batchq.errors import StartRefused


def check_target(inspected: object, network: Network) -> None:
    """Check the log driver of a restricted account's container. Raises StartRefused.

    `inspected` is the engine's inspection, which has all options, also secret ones. `network` is that of the launch.
    """
    driver = member(inspected, "HostConfig", "LogConfig", "Type", of=str)
    stored = member(inspected, "HostConfig", "LogConfig", "Config", of=object)
    options = {str(name): str(value) for name, value in stored.items()} if isinstance(stored, dict) else {}
    for why in log_drivers.option_refusals(driver, options):
        raise _forbidden(why)
    host = log_drivers.target(driver, options)
    if host is None:
        return
    if network is Network.NONE:
        raise _forbidden(f"Log driver {driver!r} is not allowed for jobs without a network")
    if resolves_to_this_machine(host):
        raise _forbidden(f"The target of log driver {driver!r} is an address of this machine, which is not allowed")


def resolves_to_this_machine(host: str) -> bool:
    """Whether the name or address resolves to an address of this machine or of a metadata service."""
    return any(is_local_address(ip_address(it)) for it in _addresses(host))


def _addresses(host: str) -> set[str]:
    """The addresses of the name; empty if it cannot be resolved. The engine resolves it by itself later."""
    with suppress(gaierror, UnicodeError):
        found = getaddrinfo(host.strip("[]"), None, type=SOCK_STREAM)
        return {str(address[0]).partition("%")[0] for *_, address in found}
    return set()


def _forbidden(why: str) -> StartRefused:
    return StartRefused(f"CannotCreateContainerError: {why}."[:1024], forbidden=True)

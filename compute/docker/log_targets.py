"""Where the log driver of a container that is made, and not begun, sends to: judged by what the engine stored.

The engine resolves names by itself when the container starts, so a name whose answer changes between the two look-ups
is not held here; nor is a redirect that the target answers to the splunk driver.
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
    """Of an account that is held to an allowance, on an environment whose jobs see this network. Raises StartRefused.

    All options are known now, secret ones too.
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
        raise _forbidden(f"Log driver {driver!r} is not allowed where jobs have no network")
    if leads_here(host):
        raise _forbidden(f"The target of log driver {driver!r}, an address of this machine, is not allowed")


def leads_here(host: str) -> bool:
    """Whether one of its addresses is of this machine, or of a metadata service."""
    return any(is_local_address(ip_address(it)) for it in _addresses(host))


def _addresses(host: str) -> set[str]:
    """Empty for a name that cannot be resolved: the engine has its own resolver."""
    with suppress(gaierror, UnicodeError):
        found = getaddrinfo(host.strip("[]"), None, type=SOCK_STREAM)
        return {str(address[0]).partition("%")[0] for *_, address in found}
    return set()


def _forbidden(why: str) -> StartRefused:
    return StartRefused(f"CannotCreateContainerError: {why}."[:1024], forbidden=True)

"""Checks of the engine's log drivers and their options for accounts. Pure. Decision 0031.

Log drivers run inside the engine: as root, on the host's network, with the host's files. So a driver that an account is
allowed to use accepts only the options in the table below. It omits those that name files of the host (`*-tls-*`,
`splunk-capath`), that make the engine buffer (`mode`, `max-buffer-size`, `fluentd-async`, `fluentd-buffer-limit`), and
that make it wait or retry for long.
"""

import re
from collections.abc import Iterator, Mapping

from batchq.domain.access.local_addresses import is_local
from batchq.domain.container import Logging

_COMMON = frozenset({"tag", "labels", "labels-regex", "env", "env-regex"})
_SPLUNK = "token url source sourcetype index caname insecureskipverify format verify-connection gzip gzip-level"
OPTIONS: Mapping[str, frozenset[str]] = {
    "fluentd": _COMMON | {"fluentd-address", "fluentd-sub-second-precision"},
    "gelf": _COMMON | {"gelf-address", "gelf-compression-type", "gelf-compression-level"},
    "journald": _COMMON,
    "splunk": _COMMON | {f"splunk-{it}" for it in _SPLUNK.split()},
    "syslog": _COMMON | {"syslog-address", "syslog-facility", "syslog-format"},
}
"""The allowed options of each driver that an account can be given; journald writes to the host's own journal."""

#: The option with the target of a driver, and the schemes that it may have, as a regular expression.
_ADDRESS: Mapping[str, tuple[str, str]] = {
    "fluentd": ("fluentd-address", "(tcp://)?"),
    "gelf": ("gelf-address", "(udp|tcp)://"),
    "splunk": ("splunk-url", "https?://"),
    "syslog": ("syslog-address", r"(udp|tcp|tcp\+tls)://"),
}
# Narrower than any URL parser accepts, so that the engine's parser cannot find another host in it.
_HOST = r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# A template can print any character; the values of these fields contain no line end.
_TAG = re.compile(r"([^{}]|\{\{ *\.(ID|FullID|Name|FullName|ImageID|ImageFullID|ImageName|DaemonName) *\}\})*")


def refusals(logging: Logging, allowed: tuple[str, ...]) -> Iterator[str]:
    """Why an account that may use the drivers `allowed` may not use this logging.

    The values of secret options are not known yet: their names are checked here, `option_refusals` checks the values.
    """
    if logging.captured:
        return
    driver = logging.driver or ""
    if driver not in allowed:
        yield f"Log driver {driver!r} is not allowed"
        return
    known = dict(logging.options)
    secret = {it.name for it in logging.secret_options}
    yield from option_refusals(driver, known, named={*known, *secret})


def option_refusals(driver: str, options: Mapping[str, str], *, named: set[str] | None = None) -> Iterator[str]:
    """Why an account may not use these options of a driver. No value is quoted, because it may be a secret.

    `named`: the names of all options if the values of some are not known; None: those of `options`.
    """
    names = set(options) if named is None else named
    for name in sorted(names - OPTIONS.get(driver, frozenset())):
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
        host = target(driver, options)
        if host is None or is_local(host):
            yield f"Option {option!r} of log driver {driver!r}, unless scheme://host:port elsewhere, is not allowed"


def target(driver: str, options: Mapping[str, str]) -> str | None:
    """The host that the driver sends to; None if it sends to none, or if its address has another form."""
    option, scheme = _ADDRESS.get(driver, ("", ""))
    address = re.fullmatch(scheme + _HOST, options.get(option, ""))
    return address["host"] if address else None

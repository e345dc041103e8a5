"""Log drivers of the engine, and what an account may ask of them. Pure.

They run inside the engine: as root, in the host's network, with the host's files. So where an account may have one, its
options are those of the table below and no others. Left out are those that name files of the host (`*-tls-*`,
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
"""By driver. Every driver that an account can be given is here; journald writes to the host's own journal."""

_ADDRESS: Mapping[str, tuple[str, str]] = {
    "fluentd": ("fluentd-address", "(tcp://)?"),
    "gelf": ("gelf-address", "(udp|tcp)://"),
    "splunk": ("splunk-url", "https?://"),
    "syslog": ("syslog-address", r"(udp|tcp|tcp\+tls)://"),
}
# Narrower than any URL parser, so that the engine's cannot read another host from it.
_HOST = r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# A template may print any character; these fields have none that ends a line.
_TAG = re.compile(r"([^{}]|\{\{ *\.(ID|FullID|Name|FullName|ImageID|ImageFullID|ImageName|DaemonName) *\}\})*")


def refusals(logging: Logging, allowed: tuple[str, ...]) -> Iterator[str]:
    """Why an account that was given these drivers may not have it. Options whose values are secret have yet to come."""
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
    """`named` are the options that are set, where not all values are known. No value is quoted: it may be a secret."""
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
    """The host that the driver sends to; None where it has none, or where its address has not the common form."""
    option, scheme = _ADDRESS.get(driver, ("", ""))
    address = re.fullmatch(scheme + _HOST, options.get(option, ""))
    return address["host"] if address else None

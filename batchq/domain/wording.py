"""Figures as text for people: durations, amounts, lists, quotes and exit codes. Pure."""

import signal
from collections.abc import Sequence
from datetime import timedelta

MAX_TEXT = 200  # characters of a reason or an error that a sentence quotes
MAX_LISTED = 3  # names in a list; the rest is counted

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_GIB = 1024  # MiB
_MIB = 2**20  # bytes
_TENTH = 0.1  # seconds
_FEW = 10  # from which number of a unit on decimals are left out
#: The usual meanings of exit codes. Shells report a program that a signal ended as 128 and the signal's number.
_MEANINGS = {
    126: "the command cannot be executed",
    127: "command not found",
    **{128 + signals: f"ended by {signals.name}" for signals in signal.Signals},
}


def duration_words(length: timedelta) -> str:
    """As `40 s`, `4 min`, `2 h 5 min`, `3 d 2 h`; negative durations count as 0."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 2 * _MINUTE:
        return f"{seconds} s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE} min"
    if seconds < _DAY:
        return _two(seconds, _HOUR, "h", _MINUTE, "min")
    return _two(seconds, _DAY, "d", _HOUR, "h")


def seconds_words(seconds: float) -> str:
    """As `duration_words`, with a decimal below ten seconds, as `0.4 s`, and milliseconds below a tenth of one."""
    if 0 < seconds < _TENTH:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < _FEW else duration_words(timedelta(seconds=seconds))


def _two(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large} {large_unit}" + (f" {rest} {small_unit}" if rest else "")


def number(count: int) -> str:
    """As `10,000`."""
    return f"{count:,}"


def average_words(value: float) -> str:
    """An average as `1,204`, `12` or `2.5`: with one decimal below 10. A small one is not written as 0."""
    if value >= _FEW or value == round(value):
        return f"{value:,.0f}"
    return f"{max(value, 0.1):.1f}".removesuffix(".0")


def rate_words(rate: float) -> str:
    """A number a second as `12 a minute` or `3 a second`."""
    return f"{rate:.0f} a second" if rate >= 1 else f"{rate * 60:.2g} a minute"


def counted(count: int, one: str, many: str | None = None) -> str:
    """As `1 job` or `22 jobs`. `many`: the plural; None: `one` with an s."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def vcpus_words(millicpus: int) -> str:
    """As `4 vCPUs` or `0.25 vCPUs`."""
    return f"{figure(millicpus)} {'vCPU' if millicpus == 1000 else 'vCPUs'}"  # noqa: PLR2004 - thousandths


def figure(millicpus: int) -> str:
    """Thousandths of a vCPU as a number of vCPUs, as `1.5`."""
    return f"{millicpus / 1000:,.3f}".rstrip("0").rstrip(".")


def memory_words(mib: int) -> str:
    """As `512 MiB` or `4 GiB`."""
    return f"{number(mib // _GIB)} GiB" if mib and mib % _GIB == 0 else f"{number(mib)} MiB"


def bytes_words(count: int) -> str:
    """As `0 MiB`, `0.4 MiB`, `812 MiB` or `12.3 GiB`."""
    mib = count / _MIB
    if 0 < mib < _FEW:
        return f"{mib:.1f} MiB"
    return f"{mib:,.0f} MiB" if mib < _FEW * _GIB else f"{mib / _GIB:,.1f} GiB"


def cpus_words(cpu_seconds: float, length: timedelta, vcpus: float) -> str:
    """The mean number of vCPUs beside those that were requested, as `1.7 of 2 vCPUs`; empty for no time."""
    seconds = length.total_seconds()
    if seconds <= 0:
        return ""
    mean = cpu_seconds / seconds
    return f"{mean:,.{1 if mean >= 1 else 2}f} of {vcpus:g} {'vCPU' if vcpus == 1 else 'vCPUs'}"


def peak_words(count: int, mib: int) -> str:
    """The most memory beside what was requested, as `peak 812 of 1,024 MiB`."""
    return f"peak {bytes_words(count).removesuffix(' MiB')} of {number(mib)} MiB"


def ordinal(place: int) -> str:
    """As `1st`, `12th`, `23rd`."""
    ending = "th" if place // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{number(place)}{ending}"


def list_words(items: Sequence[str]) -> str:
    """As `a, b, c and 3 more`."""
    shown = list(items[:MAX_LISTED])
    more = len(items) - len(shown)
    parts = [*shown, f"{number(more)} more"] if more > 0 else shown
    return joined(parts)


def joined(parts: Sequence[str]) -> str:
    """As `a, b and c`; empty without parts."""
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def quoted(text: str) -> str:
    """A text of a user or of the container engine in quotes, cut after MAX_TEXT characters."""
    return f'"{short(text)}"'


def short(text: str) -> str:
    """A text of a user or the container engine on one line, at most MAX_TEXT characters, without a final full stop."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= MAX_TEXT else f"{line[: MAX_TEXT - 3]}..."


def exit_code(code: int) -> str:
    """An exit code with its usual meaning, as `exit code 127 (command not found)`."""
    return f"exit code {code} ({_MEANINGS[code]})" if code in _MEANINGS else f"exit code {code}"

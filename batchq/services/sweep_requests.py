"""The requests of a sweep: one job for each combination of values. The command line and the web console make them."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import product
from json import dumps

from msgspec import Struct
from msgspec.structs import replace

from batchq.errors import UsageError
from batchq.services.client_requests import Request

PLACE = "{}"
LINE = "line"  # the parameter of a job that has the line of a file
MAX_MEMBERS = 100_000  # jobs of one command
_PLACE = re.compile(r"\{([A-Za-z_]\w*)?\}", re.ASCII)
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})", re.ASCII)
_OTHER_RANGE = re.compile(r"-?[\d.]*\d(e-?\d+)?\.\.-?\.?\d.*", re.ASCII)


class SweepMember(Struct, frozen=True, kw_only=True):
    """One job of a sweep."""

    #: From 1.
    number: int
    #: The SubmitJob request.
    request: Request
    #: Identifies the request when it is repeated.
    invocation: str

    def with_members_of(self, resolved: Request) -> "SweepMember":
        """This job with the definition, the dependencies and the tags of the resolved request."""
        known = {text: resolved[text] for text in ("jobDefinition", "dependsOn", "tags") if text in resolved}
        return replace(self, request=self.request | known)


class Axis(Struct, frozen=True, kw_only=True):
    """One `--each` or `--each-row`: a job is submitted for each of its points."""

    #: What identifies the axis in repeated commands: the path of a file, or the text of the flag.
    source: str
    #: The values of each point by name. The name LINE is that of a line.
    points: tuple[Mapping[str, str], ...]


def values_axis(text: str) -> Axis:
    """The axis of `NAME=a,b` or `NAME=1..5`. Raises UsageError."""
    name, _, listed = text.partition("=")
    values = [value for part in listed.split(",") for value in _range(part)]
    if not all(values):
        raise UsageError(f"{text}: a value is empty")
    return Axis(source=text, points=tuple({name: value} for value in values))


def _range(text: str) -> Sequence[str]:
    """The numbers of `1..5`; any other text is one value."""
    ends = _RANGE.fullmatch(text)
    if ends is None and _OTHER_RANGE.fullmatch(text):
        raise UsageError(f"{text} is not a range of whole numbers, as 1..5: list the values, as 0.1,0.2,0.3")
    if ends is None:
        return [text]
    first, last = int(ends[1]), int(ends[2])
    if not 0 <= last - first < MAX_MEMBERS:
        raise UsageError(f"{text} is not a range of 1 to {MAX_MEMBERS} numbers")
    return [str(number) for number in range(first, last + 1)]


def expand(request: Request, axes: Sequence[Axis], *, words: int) -> list[SweepMember]:
    """A job for each combination of points. Raises UsageError.

    `{}` is the line, and `{NAME}` a value, in the command and in the values of variables. Each value is also one of
    AWS's parameters, and a variable of the job, unless `-e` sets one of this name. `words`: how many words at the end
    of the command are the caller's; others, as a script, are left as they are.
    """
    overrides = request.get("containerOverrides", {})
    command: Sequence[str] = overrides.get("command", ())
    values = [item["value"] for item in overrides.get("environment", ())]
    has_lines = any(LINE in axis.points[0] for axis in axes)
    if has_lines and not any(PLACE in value for value in (*command[len(command) - words :], *values)):
        raise UsageError(
            f"--each needs {PLACE}, which stands for the line, in the command behind -- or in a value of -e"
        )
    sources = [axis.source for axis in axes]
    combinations = [
        {name: text for point in points for name, text in point.items()}
        for points in product(*[axis.points for axis in axes])
    ]
    return [
        SweepMember(
            number=number,
            request=request
            | {"jobName": f"{request['jobName']}-{number}", "containerOverrides": _filled(overrides, found, words)}
            | {"parameters": found},
            invocation=sha256(dumps([sources, number, found]).encode()).hexdigest(),
        )
        for number, found in enumerate(combinations, start=1)
    ]


def _filled(overrides: Request, values: Mapping[str, str], words: int) -> Request:
    """The overrides with the values in their places, and as variables."""

    def fill(text: str) -> str:
        return _PLACE.sub(lambda place: values.get(place[1] or LINE, place[0]), text)

    filled = dict(overrides)
    if words:
        command = overrides["command"]
        filled["command"] = [*command[:-words], *map(fill, command[-words:])]
    given = [item | {"value": fill(item["value"])} for item in overrides.get("environment", ())]
    names = {item["name"] for item in given}
    own = [{"name": name, "value": text} for name, text in values.items() if name != LINE and name not in names]
    return filled | ({"environment": [*given, *own]} if given or own else {})

"""The form of a new job: its fields, the SubmitJob request that they make, and the equal commands."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Annotated, Any

from pydantic import Field

from batchq.api.console.forms import Form
from batchq.domain.group_terms import GROUP_TAG, MAX_FAILED_TAG, MAX_RUNNING_TAG, SIZE_TAG
from batchq.domain.quantities import count_of, is_vcpus, mib_of
from batchq.domain.times import duration_of
from batchq.errors import Invalid
from batchq.services.client_requests import LIKE, ORIGIN_TAGS, Request, short_name

MAX_JOB_NAME = 128
N_TO_N = "n2n"
SUBMIT = "submit"
GROUP_TAGS = frozenset({GROUP_TAG, SIZE_TAG, MAX_RUNNING_TAG, MAX_FAILED_TAG})
#: The members of a request that fields of the form set.
_OWN_MEMBERS = frozenset(
    {"jobName", "jobQueue", "jobDefinition", "containerOverrides", "arrayProperties", "dependsOn", "retryStrategy"}
    | {"timeout", "tags", "shareIdentifier", "schedulingPriorityOverride"}
)
_KINDS = {"VCPU": "vcpus", "MEMORY": "memory", "GPU": "gpus"}
_CAPITAL = re.compile(r"(?=[A-Z])")

Word = Annotated[str, Field(max_length=512)]
Lines = Annotated[str, Field(max_length=32_768)]


class SubmissionForm(Form):
    """The fields as they were typed; empty: not given."""

    #: `check` or `submit`.
    action: Word = SUBMIT
    #: `name`, `name:revision` or an ARN.
    definition: Word = ""
    image: Word = ""
    #: The id of the job whose other members are copied.
    like: Word = ""
    #: The other users who wrote what the job runs, as the page named them.
    authors: Lines = ""
    name: Word = ""
    queue: Word = ""
    command: Lines = ""
    vcpus: Word = ""
    memory: Word = ""
    gpus: Word = ""
    environment: Lines = ""
    array: Word = ""
    after: Lines = ""
    retry: Word = ""
    time: Word = ""
    priority: Word = ""
    share: Word = ""
    tags: Lines = ""
    #: Of an image: `HOST:PATH` or `HOST:PATH:ro` on each line.
    volumes: Lines = ""
    group: Word = ""
    #: `NAME=a,b` or `NAME=1..5` on each line: a job is submitted for each combination.
    grid: Lines = ""
    max_running: Word = ""
    max_failed: Word = ""

    def words(self) -> list[str]:
        """The command, split as a shell splits it. Raises Invalid."""
        try:
            return shlex.split(self.command)
        except ValueError as why:
            raise Invalid(f"The command cannot be split into words: {why}.") from None

    def check_source(self) -> None:
        """Raise Invalid unless either a job definition or an image is given."""
        if bool(self.definition) == bool(self.image):
            raise Invalid("Give either a job definition or an image.")

    def to_request(self, base: Mapping[str, Any]) -> Request:
        """The SubmitJob request, without a jobDefinition for an image. Raises Invalid.

        `base`: the request whose other members are copied; empty without such a job.
        """
        self.check_source()
        members: dict[str, object] = {
            "jobName": self.name or self._default_name(),
            "jobQueue": self.queue,
            "jobDefinition": self.definition,
            "containerOverrides": self._overrides(),
            "arrayProperties": self.array and {"size": count_field(self.array, "array size")},
            "dependsOn": [_dependency(part) for part in self.after.replace(",", " ").split()],
            "retryStrategy": self._retry(base.get("retryStrategy", {})),
            "timeout": self.time and {"attemptDurationSeconds": duration_field(self.time)},
            "tags": dict(pairs_field(self.tags, "tag")) | ({LIKE: self.like} if self.like else {}),
            "shareIdentifier": self.share,
        }
        if self.priority:
            members["schedulingPriorityOverride"] = (
                0 if self.priority == "0" else count_field(self.priority, "priority")
            )
        kept = {member: value for member, value in base.items() if member not in _OWN_MEMBERS}
        return kept | {member: value for member, value in members.items() if value or value == 0}

    def _default_name(self) -> str:
        return short_name(self.image or self.definition.rpartition("/")[2])[:MAX_JOB_NAME]

    def _overrides(self) -> Request:
        amounts = {
            "VCPU": self.vcpus and vcpus_field(self.vcpus),
            "MEMORY": self.memory and str(memory_field(self.memory)),
            "GPU": self.gpus and str(count_field(self.gpus, "number of GPUs")),
        }
        found: Request = {
            "command": self.words(),
            "environment": [
                {"name": name, "value": value} for name, value in pairs_field(self.environment, "variable")
            ],
            "resourceRequirements": [{"type": kind, "value": value} for kind, value in amounts.items() if value],
        }
        return {member: value for member, value in found.items() if value}

    def _retry(self, before: Mapping[str, Any]) -> Request:
        """The retry strategy with the typed number of attempts. Rules of the copied job are kept."""
        others = {member: value for member, value in before.items() if member != "attempts"}
        return others | ({"attempts": count_field(self.retry, "number of attempts")} if self.retry else {})


def fields_of(request: Mapping[str, Any]) -> dict[str, str]:
    """The fields of the form for a request. Members of the request without a field are left out."""
    overrides = request.get("containerOverrides", {})
    amounts = {
        _KINDS[requirement["type"]]: requirement["value"] for requirement in overrides.get("resourceRequirements", ())
    }
    return {
        "definition": str(request["jobDefinition"]).rpartition("/")[2],
        "name": request["jobName"],
        "queue": request["jobQueue"],
        "command": shlex.join(overrides.get("command") or ()),
        "environment": _lines((item["name"], item["value"]) for item in overrides.get("environment", ())),
        "array": str(request.get("arrayProperties", {}).get("size", "")),
        "retry": str(request.get("retryStrategy", {}).get("attempts", "")),
        "time": str(request.get("timeout", {}).get("attemptDurationSeconds", "")),
        "priority": str(request.get("schedulingPriorityOverride", "")),
        "share": request.get("shareIdentifier", ""),
        "tags": _lines((name, value) for name, value in request.get("tags", {}).items() if name not in ORIGIN_TAGS),
        **amounts,
    }


def aws_command(request: Mapping[str, Any]) -> str:
    """The command of the AWS CLI that sends a request."""
    words = ["aws", "batch", "submit-job"]
    for member, value in request.items():
        flag = f"--{_CAPITAL.sub('-', member).lower()}"
        if isinstance(value, bool):
            words += [flag if value else flag.replace("--", "--no-", 1)]
        else:
            words += [flag, value if isinstance(value, str) else json.dumps(value)]
    return shlex.join(words)


def batchq_command(form: SubmissionForm, request: Mapping[str, Any]) -> str:
    """The command of batchq that sends a request; empty if its flags cannot express the request."""
    retry = request.get("retryStrategy", {})
    if not request.keys() <= _OWN_MEMBERS or not retry.keys() <= {"attempts"}:
        return ""
    overrides = request.get("containerOverrides", {})
    amounts = {requirement["type"]: requirement["value"] for requirement in overrides.get("resourceRequirements", ())}
    flags = [
        ("--name", request["jobName"]),
        ("--queue", request["jobQueue"]),
        ("--vcpus", amounts.get("VCPU")),
        ("--memory", amounts.get("MEMORY") and f"{amounts['MEMORY']}m"),
        ("--gpus", amounts.get("GPU")),
        *(("--env", f"{item['name']}={item['value']}") for item in overrides.get("environment", ())),
        ("--array", request.get("arrayProperties", {}).get("size")),
        *(("--after", job["jobId"] + (f":{N_TO_N}" if "type" in job else "")) for job in request.get("dependsOn", ())),
        ("--retry", retry.get("attempts")),
        ("--time", request.get("timeout") and f"{request['timeout']['attemptDurationSeconds']}s"),
        ("--priority", request.get("schedulingPriorityOverride")),
        ("--share", request.get("shareIdentifier")),
        *(("--tag", f"{name}={value}") for name, value in request.get("tags", {}).items() if name not in GROUP_TAGS),
        *(("-v", line.strip()) for line in form.volumes.splitlines() if line.strip()),
        *(("--each", line.strip()) for line in form.grid.splitlines() if line.strip()),
        ("--group", form.group or None),
        ("--max-running", form.max_running or None),
        ("--max-failed", form.max_failed or None),
    ]
    source = [form.image] if form.image else ["-d", form.definition]
    given = [str(word) for flag, value in flags if value is not None for word in (flag, value)]
    command = overrides.get("command", [])
    return shlex.join(["batchq", "submit", *source, *given, *(["--", *command] if command else [])])


def amounts_overrides(*, vcpus: str, memory: str) -> Request:
    """The containerOverrides for amounts as they were typed; empty without any. Raises Invalid."""
    amounts = {"VCPU": vcpus and vcpus_field(vcpus), "MEMORY": memory and str(memory_field(memory))}
    given = [{"type": kind, "value": value} for kind, value in amounts.items() if value]
    return {"containerOverrides": {"resourceRequirements": given}} if given else {}


def count_field(text: str, what: str) -> int:
    """The whole number. Raises Invalid."""
    number = count_of(text)
    if number is None:
        raise Invalid(f"The {what} must be a whole number of at least 1.")
    return number


def vcpus_field(text: str) -> str:
    """The number of vCPUs. Raises Invalid."""
    if not is_vcpus(text):
        raise Invalid("The vCPUs must be a number, for example 2 or 0.5.")
    return text


def memory_field(text: str) -> int:
    """The MiB of a size of memory. Raises Invalid."""
    size = mib_of(text)
    if size is None:
        raise Invalid("The memory must be a size, for example 512m or 4g.")
    return size


def duration_field(text: str) -> int:
    """The seconds of a duration. Raises Invalid."""
    length = duration_of(text.strip().lower())
    if length is None:
        raise Invalid("The time limit must be a duration, for example 90s, 15m, 1h30m or 2d.")
    return ceil(length.total_seconds())


def pairs_field(text: str, what: str) -> list[tuple[str, str]]:
    """The lines `NAME=VALUE`; empty lines are skipped. Raises Invalid."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if line.strip() and (not separator or not name.strip()):
            raise Invalid(f"The {what} {line[:100]!r} is not NAME=VALUE.")
        if separator:
            found[name.strip()] = value
    return list(found.items())


def _lines(pairs: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"{name}={value}" for name, value in pairs)


def _dependency(text: str) -> Request:
    job = text.removesuffix(f":{N_TO_N}")
    return {"jobId": job, "type": "N_TO_N"} if text != job else {"jobId": job}

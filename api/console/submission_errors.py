"""Which field of the form of a new job is wrong: by its own text, or by the error of the server."""

import re
from collections.abc import Callable, Mapping

from batchq.api.console.submission_form import (
    SubmissionForm,
    count_field,
    duration_field,
    memory_field,
    pairs_field,
    vcpus_field,
)
from batchq.api.console.submission_group import grid_axes, group_limits, volumes_of
from batchq.errors import Invalid

#: The field that an error of the server is about, by the beginning or a word of the error. The first match applies.
_SERVER_ERRORS = (
    (r"JobQueue", "queue"),
    (r"Array|arrayProperties", "array"),
    (r"Job name|jobName", "name"),
    (r"share ?[Ii]dentifier", "share"),
    (r"schedulingPriority", "priority"),
    (r"attempts|retryStrategy", "retry"),
    (r"timeout|attemptDurationSeconds", "time"),
    (r"depend|Job [0-9a-f-]{36}", "after"),
    (r"Group |batchq:group", "group"),
    (r"\btags?\b", "tags"),
    (r"empty elements|command", "command"),
    (r"MEMORY|memory", "memory"),
    (r"VCPU|vcpus", "vcpus"),
    (r"GPU", "gpus"),
    (r"environment", "environment"),
    (r"sourcePath|volume|mount", "volumes"),
    (r"image", "image"),
    (r"JobDefinition|jobDefinition|definition", "definition"),
)


def field_errors(form: SubmissionForm) -> Mapping[str, str]:
    """What is wrong with the text of each field, by the names of the fields; empty: nothing is."""
    checks: Mapping[str, Callable[[], object]] = {
        "definition": form.check_source,
        "command": form.words,
        "vcpus": lambda: form.vcpus and vcpus_field(form.vcpus),
        "memory": lambda: form.memory and memory_field(form.memory),
        "gpus": lambda: form.gpus and count_field(form.gpus, "number of GPUs"),
        "environment": lambda: pairs_field(form.environment, "variable"),
        "array": lambda: form.array and count_field(form.array, "array size"),
        "retry": lambda: form.retry and count_field(form.retry, "number of attempts"),
        "time": lambda: form.time and duration_field(form.time),
        "priority": lambda: form.priority not in {"", "0"} and count_field(form.priority, "priority"),
        "tags": lambda: pairs_field(form.tags, "tag"),
        "volumes": lambda: volumes_of(form),
        "grid": lambda: grid_axes(form),
        "max_running" if form.max_running else "max_failed": lambda: group_limits(form),
    }
    found = {}
    for field, check in checks.items():
        try:
            check()
        except Invalid as why:
            found[field] = str(why)
    return found


def field_of(error: str) -> str:
    """The field that an error of the server is about; empty if it is not known."""
    return next((field for pattern, field in _SERVER_ERRORS if re.search(pattern, error)), "")

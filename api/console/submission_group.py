"""The group of a submission of the console, the jobs of its grid, and the volumes of an image."""

from collections.abc import Sequence
from math import prod

from batchq.api.console.submission_form import SubmissionForm, count_field
from batchq.domain.access.accounts import Owner
from batchq.domain.group_terms import GROUP_TAG, MAX_FAILED_TAG, MAX_RUNNING_TAG, SIZE_TAG, group_terms
from batchq.domain.ids import GroupId
from batchq.errors import Invalid
from batchq.services.client_requests import Request, Volume
from batchq.services.sweep_requests import Axis, SweepMember, expand, values_axis

MAX_JOBS = 1000  # of one form


def grid_axes(form: SubmissionForm) -> list[Axis]:
    """The axes of the grid; empty without a grid. Raises Invalid."""
    axes = [_axis(line.strip()) for line in form.grid.splitlines() if line.strip()]
    names = [next(iter(axis.points[0])) for axis in axes]
    if len(set(names)) < len(names):
        raise Invalid("A name is given twice.")
    if (jobs := prod(len(axis.points) for axis in axes)) > MAX_JOBS:
        raise Invalid(f"{jobs:,} jobs are too many: a form submits at most {MAX_JOBS:,}. Use batchq submit --each.")
    if axes and form.array:
        raise Invalid("A grid and an array exclude each other.")
    return axes


def group_limits(form: SubmissionForm) -> dict[str, str]:
    """The tags of the limits of the group. Raises Invalid."""
    given = ((MAX_RUNNING_TAG, form.max_running), (MAX_FAILED_TAG, form.max_failed))
    found = {tag: str(count_field(text, "number of jobs")) for tag, text in given if text}
    if found and not (form.group or form.grid.strip() or form.array):
        raise Invalid("It is a limit of a group: give a group, a grid or an array.")
    return found


def jobs_of(form: SubmissionForm, request: Request) -> list[SweepMember]:
    """The requests of the form: one for each combination of the grid, or the only one. Raises Invalid."""
    axes, tags = grid_axes(form), group_limits(form)
    command: Sequence[str] = request.get("containerOverrides", {}).get("command", ())
    only = SweepMember(number=1, request=request, invocation=form.invocation)
    members = expand(request, axes, words=len(command)) if axes else [only]
    if not (form.group or axes or tags):
        return members
    name = form.group or f"{request['jobName']}/{form.invocation.replace('-', '')[:12]}"
    size = {SIZE_TAG: str(len(members))} if axes and not form.group else {}
    own = request.get("tags", {}) | {GROUP_TAG: name} | size | tags
    return [
        SweepMember(
            number=member.number,
            request=member.request | {"tags": own},
            invocation=f"{form.invocation} {member.number}" if axes else form.invocation,
        )
        for member in members
    ]


def group_id(request: Request, owner: Owner) -> GroupId | None:
    """The group that the request names; None without a group."""
    terms = group_terms(request.get("tags", {}).items(), owner)
    return None if terms is None else terms.id


def volumes_of(form: SubmissionForm) -> tuple[Volume, ...]:
    """The volumes of the image. Raises Invalid."""
    volumes = tuple(_volume(line.strip()) for line in form.volumes.splitlines() if line.strip())
    if volumes and not form.image:
        raise Invalid("Volumes belong to an image: a job definition has its own.")
    return volumes


def _axis(line: str) -> Axis:
    name, separator, values = line.partition("=")
    if not separator or not name.isidentifier() or not name.isascii():
        raise Invalid(f"{line[:100]!r} is not NAME=VALUES, as lr=0.1,0.01 or seed=1..5.")
    return values_axis(f"{name}={values}")


def _volume(line: str) -> Volume:
    parts = line.split(":")
    mode = parts.pop() if parts[-1] in {"ro", "rw"} else "rw"
    if len(parts) != 2 or not all(part.startswith("/") for part in parts):  # noqa: PLR2004 - host and container
        raise Invalid(f"{line[:100]!r} is not HOST:PATH or HOST:PATH:ro with absolute paths.")
    return parts[0], parts[1], mode == "ro"

"""Refusals of the training dialect that depend on the named job."""

from http import HTTPStatus

from batchq.api.training.errors import TrainingRefusal
from batchq.api.training.job_status import TrainingStatus
from batchq.domain.ids import JobId


def not_found(resource: str, name: str) -> TrainingRefusal:
    """The error for a resource that does not exist, or that the caller may not see. `resource`: its kind, as `job`."""
    return TrainingRefusal(
        HTTPStatus.NOT_FOUND,
        "RESOURCE_NOT_FOUND",
        f"Training {resource} {name} not found.",
        details={"resource": resource, "id": name},
    )


def state_conflict(job_id: JobId, status: TrainingStatus, *, required: str) -> TrainingRefusal:
    """For a job whose status does not permit the operation. `required`: the statuses that do, as text."""
    return TrainingRefusal(
        HTTPStatus.CONFLICT,
        "STATE_CONFLICT",
        f"Training job {job_id} is already {status}.",
        details={"current_state": status.value, "required_state": required},
    )


def time_limit_reached(job_id: JobId, status: TrainingStatus, *, required: str) -> TrainingRefusal:
    """For a job that its own time limit stops already: it ends as failed."""
    return TrainingRefusal(
        HTTPStatus.CONFLICT,
        "STATE_CONFLICT",
        f"Training job {job_id} has reached its time limit and is being stopped.",
        details={"current_state": status.value, "required_state": required},
    )


def impossible(why: str) -> TrainingRefusal:
    """For a well-formed request that cannot be carried out on this job."""
    return TrainingRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "SEMANTIC_ERROR", why)

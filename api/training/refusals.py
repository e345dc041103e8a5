"""Refusals of the training dialect that depend on the named job."""

from http import HTTPStatus

from batchq.api.http import HttpRefusal
from batchq.api.training.job_status import TrainingStatus
from batchq.domain.ids import JobId


def not_found(resource: str, name: str) -> HttpRefusal:
    """For what does not exist, and for what the caller may not see. `resource`: as `job`."""
    status = HTTPStatus.NOT_FOUND
    return HttpRefusal(f"Training {resource} {name} not found.", status=status, code="RESOURCE_NOT_FOUND")


def state_conflict(job_id: JobId, status: TrainingStatus) -> HttpRefusal:
    """For a job whose status does not permit the operation."""
    text = f"Training job {job_id} is already {status}."
    return HttpRefusal(text, status=HTTPStatus.CONFLICT, code="STATE_CONFLICT")


def impossible(why: str) -> HttpRefusal:
    """For a well-formed request that cannot be carried out on this job."""
    return HttpRefusal(why, status=HTTPStatus.UNPROCESSABLE_ENTITY, code="SEMANTIC_ERROR")

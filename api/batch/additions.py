"""The members `batchq` in answers, which AWS's shapes do not have: their shapes, and how they are made.

Clients of AWS ignore members that they do not know. Decisions 0025 and 0068.
"""

from typing import Any

from msgspec import Struct, to_builtins

from batchq.api.operations.schemas import Additions
from batchq.api.stop_shapes import stop_order_answer, use_answer
from batchq.domain.access.accounts import Owner
from batchq.domain.catalog import JobDefinition
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.stopping import latest_order
from batchq.ports.responses.batch import SubmissionAdditions
from batchq.ports.responses.jobs import UseResponse
from batchq.ports.responses.stops import StopOrderResponse


class AuthorResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """A user, and the account of that user at the time."""

    user: str
    account: str


class DefinitionAdditions(AuthorResponse, frozen=True, kw_only=True, rename="camel"):
    """The member `batchq` of a job definition, which AWS does not have: the user who owns its name."""

    #: The user who registered this revision. Jobs of the revision have only rights that this user has too.
    author: AuthorResponse


class JobAdditions(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The member `batchq` of a job in the answer to ListJobs, which AWS does not have."""

    #: The user who submitted the job; empty if requests were not authenticated.
    user: str
    #: The account of that user at the time.
    account: str
    #: The other users who wrote what the job runs; absent without any. The job has only rights that they have too.
    authors: tuple[AuthorResponse, ...] = ()


class JobDetailAdditions(JobAdditions, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The member `batchq` of a job in the answer to DescribeJobs, which AWS does not have."""

    #: The latest order to cancel or stop the job; absent without one.
    stop_order: StopOrderResponse | None = None
    #: All such orders that had an effect, oldest first; absent without one.
    stop_orders: tuple[StopOrderResponse, ...] = ()


class AttemptAdditions(Struct, frozen=True, kw_only=True):
    """The member `batchq` of an attempt in the answer to DescribeJobs, which AWS does not have."""

    #: What the attempt used; an attempt that was not measured has no member `batchq`.
    use: UseResponse


ADDITIONS: Additions = {
    ("batch", "AttemptDetail"): AttemptAdditions,
    ("batch", "JobDefinition"): DefinitionAdditions,
    ("batch", "JobDetail"): JobDetailAdditions,
    ("batch", "JobSummary"): JobAdditions,
    ("batch", "SubmitJobResponse"): SubmissionAdditions,
}


def definition_additions(definition: JobDefinition) -> object:
    owner = definition.owner
    return to_builtins(DefinitionAdditions(user=owner.user, account=owner.account, author=_author(definition.author)))


def job_additions(job: Job) -> object:
    """Of a job in a list."""
    return to_builtins(JobAdditions(**_people(job)))


def job_detail_additions(job: Job) -> object:
    """Of a job that is described. A pause of an attempt that has ended is only in `stopOrders`."""
    latest, orders = latest_order(job), tuple(map(stop_order_answer, job.stop_orders))
    order = None if latest is None else stop_order_answer(latest)
    return to_builtins(JobDetailAdditions(**_people(job), stop_order=order, stop_orders=orders))


def attempt_additions(attempt: Attempt) -> object | None:
    """None for an attempt that was not measured."""
    use = use_answer(attempt.use)
    return None if use is None else to_builtins(AttemptAdditions(use=use))


def _people(job: Job) -> dict[str, Any]:
    owner = job.spec.owner
    return {"user": owner.user, "account": owner.account, "authors": tuple(map(_author, job.spec.authors))}


def _author(owner: Owner) -> AuthorResponse:
    return AuthorResponse(user=owner.user, account=owner.account)

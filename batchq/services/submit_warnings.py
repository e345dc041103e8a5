"""Warnings of SubmitJob: why no compute environment of its queue could hold a job, and tags without a meaning.

Most jobs request what earlier jobs of their queue requested. That such a job fits is remembered until the catalog, the
quotas of accounts or the machine's resources change. A check costs 25 µs of CPU, a remembered one 1 µs.
"""

from collections.abc import Hashable
from difflib import get_close_matches

from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import NETWORK_TAG, RUNTIME_TAG, Tags
from batchq.domain.container import CREATE_HOST_PATHS_TAG
from batchq.domain.explanation import capacity
from batchq.domain.explanation.facts import Reader
from batchq.domain.group_terms import GROUP_TAG, MAX_FAILED_TAG, MAX_RUNNING_TAG, SIZE_TAG
from batchq.domain.ids import ENGINE_TAG, LABEL_TAG, JobId
from batchq.domain.job import Job, JobSpec
from batchq.domain.scheduling.capacity import FreeCapacity
from batchq.domain.scheduling.resources import Usage
from batchq.domain.training import (
    CHECKPOINTS_TAG,
    METRIC_TAG,
    SIGNAL_TAG,
    TIMEOUT_TAG,
    TOTAL_EPOCHS_TAG,
    TOTAL_STEPS_TAG,
)
from batchq.domain.webhooks import NOTIFY_TAG
from batchq.engine.engine import Engine
from batchq.ports.clock import Clock
from batchq.services.catalog import CatalogService
from batchq.services.client_requests import LIKE, RERUN_OF

MAX_REMEMBERED = 1000  # requests that fit
PREFIX = "batchq:"
JOB_TAGS = (
    CHECKPOINTS_TAG,
    SIGNAL_TAG,
    TIMEOUT_TAG,
    TOTAL_EPOCHS_TAG,
    TOTAL_STEPS_TAG,
    GROUP_TAG,
    SIZE_TAG,
    MAX_RUNNING_TAG,
    MAX_FAILED_TAG,
    CREATE_HOST_PATHS_TAG,
    NOTIFY_TAG,
    RERUN_OF,
    LIKE,
    "batchq:queue",  # of a training job of SageMaker
)
ENVIRONMENT_TAGS = (NETWORK_TAG, RUNTIME_TAG, ENGINE_TAG)


class SubmitWarnings:
    """Explains that a new job can never be placed, and remembers the requests that can."""

    def __init__(self, *, engine: Engine, catalog: CatalogService, clock: Clock) -> None:
        self._engine = engine
        self._catalog = catalog
        self._clock = clock
        #: The state of the catalog, the quotas and the machine for which `_fitting` is valid.
        self._valid_for: Hashable = None
        self._fitting: set[Hashable] = set()

    def warning(self, spec: JobSpec, tags: Tags, *, caller: Caller) -> str | None:
        """The tags of a new job without a meaning, and why no compute environment could hold it, as sentences.

        None: there is nothing to report.
        """
        return " ".join(filter(None, (_tag_warning(tags), self._capacity_warning(spec, caller)))) or None

    def _capacity_warning(self, spec: JobSpec, caller: Caller) -> str | None:
        """Why no compute environment of the queue could hold a new job, as a sentence.

        None if one could, if no environment is enabled, while the capacity is not known, and for a deleted queue.
        """
        request = (spec.queue, spec.resources, spec.owner.account)
        # The units of a consumable resource are used up without a change of the catalog.
        if not spec.needs and self._fits(request):
            return None
        queue, cluster = self._catalog.queues_of(caller).get(spec.queue), self._engine.cluster()
        if queue is None or cluster is None:
            return None
        now = self._clock.now()
        job = Job(id=JobId(""), sequence=0, spec=spec, created_at=now)
        idle = FreeCapacity(cluster=cluster, usage=Usage().after(()), now=now)
        why = capacity.never_fits(job, queue, cluster, Reader(caller=caller), idle=idle)
        if why is None and not spec.needs and len(self._fitting) < MAX_REMEMBERED:
            self._fitting.add(request)
        return None if why is None else why.sentence

    def _fits(self, request: Hashable) -> bool:
        """Whether the request is remembered. Forgets all of them after a change."""
        present = (self._catalog.version, self._engine.machines(), self._engine.accounts.quotas())
        if present != self._valid_for:
            self._valid_for = present
            self._fitting.clear()
        return request in self._fitting


def _tag_warning(tags: Tags) -> str | None:
    """The first tag that begins as those of batchq and has no meaning, as a misspelled one; None: there is none."""
    for name, _ in tags:
        if name.startswith(PREFIX) and name not in JOB_TAGS and not name.startswith(METRIC_TAG):
            if name in ENVIRONMENT_TAGS or name.startswith(LABEL_TAG):
                return f"The tag {name} has no effect on a job: set it on a compute environment."
            similar = get_close_matches(name, JOB_TAGS, n=1, cutoff=0.8)
            advice = f"did you mean {similar[0]}?" if similar else "names with this prefix are reserved."
            return f"The tag {name} has no effect: {advice}"
    return None

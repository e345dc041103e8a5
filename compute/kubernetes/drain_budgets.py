"""The PodDisruptionBudgets of compute environments whose pods no drain may evict.

The API server answers an eviction of such a pod with 429, so `kubectl drain` waits until the job has ended. A budget
exists from the first pod of its environment until a survey finds none, or finds that the setting was removed.
"""

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from batchq.compute.kubernetes.pod_names import DRAINS, INSTANCE, drain_label
from batchq.compute.kubernetes.pods import Pod
from batchq.compute.kubernetes.rest import ReadForbidden, RestClient, decode
from batchq.errors import RuntimeUnknown

MORE_THAN_EVER_RUN = 2**31 - 1  # available pods that the budget demands: pods without a controller need a number

log = logging.getLogger(__name__)


class DrainBudgets:
    """The budgets of one instance, one for each environment."""

    def __init__(self, rest: RestClient, instance: str, environments: Collection[str]) -> None:
        """`environments`: the names of those whose pods no drain may evict."""
        self._rest = rest
        self._instance = instance
        self._labels = frozenset(map(drain_label, environments))
        #: The labels of the budgets that are known to exist.
        self._existing: set[str] = set()
        #: Whether the budgets of earlier servers are known too.
        self._is_listed = False
        #: Why a comparison failed last; None: none failed.
        self._failure: str | None = None
        #: The labels of budgets that no pod has needed since the present survey began.
        self._unused: set[str] = set()
        self._lock = asyncio.Lock()
        namespaced = rest.namespaced.removeprefix("/api/v1")
        #: Kubernetes 1.20 has an earlier version of the API.
        self._path = {
            is_old: f"/apis/policy/{'v1beta1' if is_old else 'v1'}{namespaced}/poddisruptionbudgets"
            for is_old in (True, False)
        }

    async def ensure(self, environment: str, *, is_old: bool) -> None:
        """Create the budget of the environment, if its pods are not to be evicted. Raises RuntimeUnknown."""
        label = drain_label(environment)
        if label not in self._labels:
            return
        async with self._lock:
            self._unused.discard(label)
            if label in self._existing:
                return
            reply = await self._rest.request("POST", self._path[is_old], body=self._budget(label, is_old=is_old))
            if not reply.ok and reply.status != HTTPStatus.CONFLICT:
                raise RuntimeUnknown(f"create a PodDisruptionBudget: {reply.message}")
            self._existing.add(label)

    async def begin_survey(self, *, is_old: bool) -> None:
        """Begin to count the budgets that no pod needs. A failure is only logged: jobs do not wait for it."""
        async with self._lock:
            self._unused.clear()
            with self._logged():
                if not self._is_listed:
                    self._existing |= await self._list(is_old=is_old)
                    self._is_listed = True
                self._unused = set(self._existing)

    def keep_for(self, pod: Pod) -> None:
        """Count the budget of the pod as needed."""
        label = (pod["metadata"].get("labels") or {}).get(DRAINS)
        if label in self._labels:
            self._unused.discard(label)

    async def end_survey(self, *, is_old: bool) -> None:
        """Delete the budgets that no pod needs. A failure is only logged."""
        async with self._lock:
            with self._logged():
                await self._delete_unused(is_old=is_old)

    async def _delete_unused(self, *, is_old: bool) -> None:
        for label in tuple(self._unused):
            reply = await self._rest.request("DELETE", f"{self._path[is_old]}/{self._name_of(label)}", body={})
            if not reply.ok and reply.status != HTTPStatus.NOT_FOUND:
                raise RuntimeUnknown(f"delete a PodDisruptionBudget: {reply.message}")
            self._unused.discard(label)
            self._existing.discard(label)

    @contextmanager
    def _logged(self) -> Iterator[None]:
        """Log a failure, unless it is the same as the last one. Without the setting there is rarely a budget."""
        try:
            yield
        except RuntimeUnknown as unknown:
            if str(unknown) != self._failure:
                level = logging.WARNING if self._labels else logging.DEBUG
                log.log(level, "the PodDisruptionBudgets are not compared with the pods: %s", unknown)
            self._failure = str(unknown)

    async def _list(self, *, is_old: bool) -> set[str]:
        """The labels of this instance's budgets; none without the right to list them and without the setting."""
        selector = {"labelSelector": f"{INSTANCE}={self._instance}"}
        try:
            pages = [page async for page in self._rest.pages(self._path[is_old], selector)]
        except ReadForbidden:
            if self._labels:
                raise
            return set()
        budgets = [decode(item, dict) for page in pages for item in page.items]
        return {str((budget["metadata"].get("labels") or {}).get(DRAINS)) for budget in budgets}

    def _name_of(self, label: str) -> str:
        return f"bq-{self._instance}-drains-{label}"

    def _budget(self, label: str, *, is_old: bool) -> dict[str, object]:
        labels = {INSTANCE: self._instance, DRAINS: label}
        return {
            "apiVersion": "policy/v1beta1" if is_old else "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": self._name_of(label), "labels": labels},
            "spec": {"minAvailable": MORE_THAN_EVER_RUN, "selector": {"matchLabels": labels}},
        }

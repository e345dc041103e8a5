"""Labels of metrics with a bounded number of values, so that users cannot fill the memory of a monitoring system."""

from collections.abc import Collection
from typing import Generic, TypeVar

from prometheus_client import Counter, Histogram

Metric = TypeVar("Metric", Counter, Histogram)

MAX_NAMES = 100  # values of one label

OTHER = "other"  # the label of all further names


class BoundedNames:
    """Maps the names of queues, environments, accounts or resources to label values: the first MAX_NAMES to themselves.

    A name keeps its label until the resource is deleted.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        """The label value of a name."""
        if name not in self._names:
            if len(self._names) >= MAX_NAMES:
                return OTHER
            self._names.add(name)
        return name

    def remove_missing(self, existing: Collection[str]) -> Collection[str]:
        """Release the names that do not exist any more, and return them."""
        missing = self._names.difference(existing)
        self._names -= missing
        return missing


class Children(Generic[Metric]):
    """The children of a metric with labels, looked up in a dictionary: `Metric.labels` takes several microseconds."""

    def __init__(self, metric: Metric) -> None:
        self._metric: Metric = metric
        self._children: dict[tuple[str, ...], Metric] = {}

    def of(self, *values: str) -> Metric:
        """The child with these label values."""
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._metric.labels(*values)
        return child

    def remove(self, label: str, value: str) -> None:
        """Remove all children with this value of a label."""
        self._children.clear()
        self._metric.remove_by_labels({label: value})

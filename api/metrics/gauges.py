"""Gauges: values that are read at a scrape. The table GAUGES has all of them."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from batchq.api.metrics.counters import BoundedNames


class Merge(StrEnum):
    """How the values of names that share the label `other` become one value."""

    SUM = "SUM"
    MAX = "MAX"


class Gauge(Struct, frozen=True, kw_only=True):
    """A gauge without its values."""

    name: str
    help: str
    #: The names of its labels.
    labels: tuple[str, ...] = ()
    merge: Merge = Merge.SUM
    #: Whether the value only grows until the server ends: it is exported as a counter, and its name ends in `_total`.
    is_counter: bool = False


class Reading(Struct, frozen=True, kw_only=True):
    """One value of a gauge."""

    gauge: str
    value: float
    #: The values of its labels, in the order of `Gauge.labels`.
    labels: tuple[str, ...] = ()


_KIND = "kind is limit (most that may be used) or reserved (by active jobs)"

GAUGES = (
    Gauge(
        name="batchq_jobs",
        help="Unfinished jobs, array children included and arrays themselves not.",
        labels=("queue", "state"),
    ),
    Gauge(
        name="batchq_queue_oldest_runnable_seconds",
        help="How long the first RUNNABLE job of the queue, in the order of submission, has been RUNNABLE.",
        labels=("queue",),
        merge=Merge.MAX,
    ),
    Gauge(
        name="batchq_queue_blocked_seconds",
        help="How long the head of the queue has been blocked for a reason; absent if it is not blocked.",
        labels=("queue", "reason"),
        merge=Merge.MAX,
    ),
    Gauge(name="batchq_vcpus", help=f"vCPUs of compute environments: {_KIND}.", labels=("environment", "kind")),
    Gauge(name="batchq_memory_bytes", help=f"Memory of all machines: {_KIND}.", labels=("kind",)),
    Gauge(name="batchq_gpus", help=f"GPUs of all machines: {_KIND}.", labels=("kind",)),
    Gauge(
        name="batchq_machines",
        help="Machines of the container engine: state is READY, CORDONED (no new jobs) or AWAY (it does not answer).",
        labels=("state",),
    ),
    Gauge(name="batchq_machine_vcpus", help=f"vCPUs of a machine: {_KIND}.", labels=("machine", "kind")),
    Gauge(name="batchq_machine_memory_bytes", help=f"Memory of a machine: {_KIND}.", labels=("machine", "kind")),
    Gauge(name="batchq_machine_gpus", help=f"GPUs of a machine with GPUs: {_KIND}.", labels=("machine", "kind")),
    Gauge(
        name="batchq_account_vcpus",
        help="vCPUs of an account: kind is limit (of the account with all below it) or reserved (by its own jobs).",
        labels=("account", "kind"),
    ),
    Gauge(
        name="batchq_resource_units",
        help="Units of a consumable resource: kind is total or reserved (by active jobs).",
        labels=("resource", "kind"),
    ),
    Gauge(name="batchq_engine_up", help="1 while the container engine answers and is the known one, else 0."),
    Gauge(name="batchq_store_up", help="0 if the database refused the last change, else 1."),
    Gauge(name="batchq_safe_mode", help="1 while safe mode starts no job, else 0."),
    Gauge(
        name="batchq_event_loop_late_seconds",
        help="The longest delay of the event loop above 1 s within the last 5 minutes; 0: none.",
    ),
    Gauge(name="batchq_watchers", help="Requests that wait for changes: of events, of logs, and for ends of jobs."),
    Gauge(name="batchq_store_bytes", help="The size of the database and its write-ahead log."),
    Gauge(
        name="batchq_logs_bytes",
        help="The size of all stored logs; absent while it is computed for the first time after a start.",
    ),
    Gauge(name="batchq_feed_number", help="The number of the newest event."),
    Gauge(
        name="batchq_webhook_deliveries_total",
        help="Tries to deliver an event to a webhook: outcome is delivered, rejected, failed or gone.",
        labels=("outcome",),
        is_counter=True,
    ),
    Gauge(
        name="batchq_webhook_waiting_events",
        help="Events that enabled webhooks have not read yet, and events to be delivered again.",
    ),
    Gauge(
        name="batchq_webhook_oldest_failure_seconds",
        help="For how long the oldest delivery that fails has waited, of enabled webhooks; 0: none fails.",
    ),
    Gauge(name="batchq_disk_free_bytes", help="Free space of the disk with batchq's data."),
    Gauge(
        name="batchq_info", help="Always 1; the labels describe the server.", labels=("version", "runtime", "instance")
    ),
)

_BOUNDED = frozenset({"queue", "environment", "account", "resource", "machine"})


class GaugeCollector(Collector):
    """Exports the last readings."""

    def __init__(self, names: Mapping[str, BoundedNames]) -> None:
        """`names`: the bounded names of each label with names of users' choice."""
        self._names = names
        self._readings: dict[str, dict[tuple[str, ...], float]] = {}

    def replace(self, readings: Iterable[Reading]) -> None:
        """Replace all readings. A label value that stands for several names gets their sum or maximum."""
        gauges = {gauge.name: gauge for gauge in GAUGES}
        merged: dict[str, dict[tuple[str, ...], float]] = {}
        for reading in sorted(readings, key=lambda reading: reading.labels):
            gauge = gauges[reading.gauge]
            values = merged.setdefault(gauge.name, {})
            labels = self._bounded(gauge, reading.labels)
            if labels in values:
                before = values[labels]
                values[labels] = max(before, reading.value) if gauge.merge is Merge.MAX else before + reading.value
            else:
                values[labels] = reading.value
        self._readings = merged

    def collect(self) -> Iterable[Metric]:
        for gauge in GAUGES:
            kind = CounterMetricFamily if gauge.is_counter else GaugeMetricFamily
            family = kind(gauge.name, gauge.help, labels=gauge.labels)
            for labels, value in self._readings.get(gauge.name, {}).items():
                family.add_metric(labels, value)
            yield family

    def _bounded(self, gauge: Gauge, labels: tuple[str, ...]) -> tuple[str, ...]:
        named = zip(gauge.labels, labels, strict=True)
        return tuple(self._names[label].label(value) if label in _BOUNDED else value for label, value in named)

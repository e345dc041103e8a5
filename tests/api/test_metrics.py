"""Metrics: outcomes, bounded labels, and who may read /metrics."""

from datetime import timedelta
from itertools import pairwise

import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from batchq.api.auth.authentication import open_gate
from batchq.api.metrics.counters import (
    MAX_NAMES,
    OTHER,
    BoundedNames,
    EngineMetrics,
    attempt_outcome,
    job_outcome,
    status_class,
)
from batchq.api.metrics.gauges import GaugeCollector, Reading
from batchq.api.metrics.routes import Metrics, dialect, token_in
from batchq.api.operations.parts import Monitoring
from batchq.api.serving.app import build
from batchq.domain import status_reasons
from batchq.domain.enums import Status, StopKind
from batchq.domain.job import Attempt, AttemptContainer
from batchq.domain.scheduling.fairshare import Change
from batchq.domain.stop_values import StopOrder
from batchq.domain.use import Use
from batchq.ports.jobs import StatusChanged
from tests.support.builders import ADMIN, NOON, cancel, job
from tests.support.parts import make_parts

RAN = Attempt(
    number=1,
    environment="local",
    placed_at=NOON,
    started_at=NOON,
    stopped_at=NOON + timedelta(seconds=3),
    exit_code=1,
    status_reason=status_reasons.EXITED,
    containers=(AttemptContainer(),),
)

HALF = job().spec.resources.memory_mib * 2**19


def stop(kind):
    return StopOrder(kind=kind, reason="", ordered_at=NOON)


def ended(**changes):
    return replace(job(), status=Status.FAILED, **changes)


@pytest.mark.parametrize(
    ("finished", "outcome"),
    [
        (replace(job(), status=Status.SUCCEEDED), "succeeded"),
        (ended(stop_orders=(stop(StopKind.TERMINATE),)), "terminated"),
        (ended(stop_orders=(stop(StopKind.TIMEOUT),)), "timed_out"),
        (ended(stop_orders=(cancel("too hot"),)), "cancelled"),
        (ended(status_reason=status_reasons.dependency_failed("x")), "dependency"),
        (ended(status_reason=status_reasons.EXITED), "failed"),
    ],
)
def test_a_finished_job_has_one_outcome(finished, outcome):
    assert job_outcome(finished) == outcome


@pytest.mark.parametrize(
    ("of", "attempt", "outcome"),
    [
        (job(), replace(RAN, exit_code=0), "succeeded"),
        (job(), RAN, "exit"),
        (job(), replace(RAN, reason=status_reasons.OUT_OF_MEMORY), "memory"),
        (ended(stop_orders=(stop(StopKind.TIMEOUT),)), RAN, "timed_out"),
        (ended(stop_orders=(stop(StopKind.TERMINATE),)), replace(RAN, exit_code=0), "stopped"),
        (job(), replace(RAN, status_reason=status_reasons.HOST_TERMINATED), "host"),
        (job(), replace(RAN, exit_code=None, started_at=None), "not_started"),
        (job(), replace(RAN, exit_code=None, status_reason=status_reasons.DISAPPEARED), "lost"),
    ],
)
def test_an_ended_attempt_has_one_outcome(of, attempt, outcome):
    assert attempt_outcome(of, attempt) == outcome


def names():
    return {label: BoundedNames() for label in ("queue", "environment", "account", "resource")}


def test_an_attempt_is_observed_from_runnable_to_its_end():
    registry = CollectorRegistry()
    metrics = EngineMetrics(registry, names())
    waiting = replace(job(), status=Status.RUNNABLE, runnable_at=NOON - timedelta(seconds=7))
    begun = replace(RAN, started_at=None, stopped_at=None, exit_code=None, status_reason=None)
    starting = replace(waiting, status=Status.STARTING, attempt=begun)
    running = replace(starting, status=Status.RUNNING, attempt=replace(begun, started_at=NOON))
    over = replace(running, status=Status.FAILED, attempt=None, attempts=(RAN,), stopped_at=RAN.stopped_at)
    life = (None, waiting, starting, running, over)

    for before, after in pairwise(life):
        changed = StatusChanged(before=before and before.status, job=after)
        metrics.jobs_changed([Change(before, after)], [changed], NOON + timedelta(seconds=2))

    queue = {"queue": waiting.spec.queue}
    assert registry.get_sample_value("batchq_jobs_submitted_total", queue) == 1
    assert registry.get_sample_value("batchq_jobs_finished_total", queue | {"outcome": "failed"}) == 1
    assert registry.get_sample_value("batchq_attempts_total", queue | {"outcome": "exit"}) == 1
    assert registry.get_sample_value("batchq_job_wait_seconds_sum", queue) == 7
    assert registry.get_sample_value("batchq_attempt_start_seconds_sum", {"environment": "local"}) == 2
    assert registry.get_sample_value("batchq_attempt_run_seconds_sum", queue | {"outcome": "failed"}) == 3


@pytest.mark.parametrize(
    ("use", "cpu_seconds", "ratio"),
    [
        (Use(sampled_at=NOON, cpu_seconds=2.5, working_set=HALF), 2.5, 0.5),
        (Use(sampled_at=NOON, cpu_seconds=2.5), 2.5, None),
        (None, None, None),
    ],
)
def test_the_use_of_an_attempt_is_observed_if_it_was_measured(use, cpu_seconds, ratio):
    registry = CollectorRegistry()
    metrics, running = EngineMetrics(registry, names()), replace(job(), status=Status.RUNNING)
    ran = replace(RAN, containers=tuple(replace(container, started_at=NOON, use=use) for container in RAN.containers))
    running = replace(running, attempt=replace(ran, stopped_at=None, exit_code=None))

    metrics.jobs_changed([Change(running, replace(running, attempt=None, attempts=(ran,)))], [], NOON)

    queue = {"queue": running.spec.queue}
    assert registry.get_sample_value("batchq_attempt_cpu_seconds_total", queue) == cpu_seconds
    assert registry.get_sample_value("batchq_attempt_memory_used_ratio_sum", queue) == ratio


def test_an_array_is_not_counted_and_the_series_of_a_deleted_queue_are_removed():
    registry = CollectorRegistry()
    metrics = EngineMetrics(registry, names())

    def submitted():
        return registry.get_sample_value("batchq_jobs_submitted_total", {"queue": job().spec.queue})

    for changed_job, counted in ((job(array_size=2), None), (job(), 1)):
        metrics.jobs_changed([Change(None, changed_job)], [StatusChanged(before=None, job=changed_job)], NOON)
        assert submitted() == counted
    metrics.remove(queues=[job().spec.queue], environments=[])

    assert submitted() is None


def test_names_beyond_the_limit_share_one_label_until_one_is_deleted():
    bounded = BoundedNames()
    known = [f"queue-{number}" for number in range(MAX_NAMES)]
    assert [bounded.label(name) for name in known] == known

    assert bounded.label("one more") == OTHER
    assert bounded.remove_missing([*known[1:], "one more"]) == {known[0]}
    assert bounded.label("one more") == "one more"


def test_gauges_that_share_a_label_are_added_or_their_maximum_is_shown():
    registry, bounded = CollectorRegistry(), names()
    collector = GaugeCollector(bounded)
    registry.register(collector)
    for number in range(MAX_NAMES):
        bounded["queue"].label(f"queue-{number}")

    oldest = "batchq_queue_oldest_runnable_seconds"
    collector.replace(
        [
            *(Reading(gauge="batchq_jobs", value=number, labels=(f"more-{number}", "RUNNING")) for number in (1, 2)),
            *(Reading(gauge=oldest, value=number, labels=(f"more-{number}",)) for number in (1, 2)),
        ]
    )

    assert registry.get_sample_value("batchq_jobs", {"queue": OTHER, "state": "RUNNING"}) == 3
    assert registry.get_sample_value(oldest, {"queue": OTHER}) == 2


def test_a_reached_limit_is_a_class_of_its_own():
    assert [status_class(number) for number in (200, 404, 429, 503)] == ["2xx", "4xx", "429", "5xx"]


class Monitored:
    """The application with nothing but metrics. `readings` counts how often the gauges were read."""

    def __init__(self, token=None):
        self.now, self.readings, self.works = NOON, 0, True
        metrics = Metrics(now=lambda: self.now)
        monitoring = Monitoring(
            health=dict,
            facts=dict,
            is_alive=self._is_well,
            is_ready=self._is_well,
            scrape=lambda: metrics.scrape(self._read, lambda _: ()),
            token=token,
        )
        parts = make_parts(monitoring=monitoring)
        gate = open_gate(ADMIN.user, now=lambda: NOON)
        self.app = build(dialects=[dialect(parts)], health=dict, hosts=[], gate=gate, requests=metrics.requests)

    async def _read(self):
        self.readings += 1
        return [Reading(gauge="batchq_engine_up", value=1)]

    async def _is_well(self):
        return self.works

    async def get(self, *paths, **headers):
        async with TestClient(TestServer(self.app)) as client:
            answers = [await client.get(path, headers=headers) for path in paths]
            return [(answer.status, await answer.text()) for answer in answers]


async def test_scrapes_within_a_second_share_one_text():
    server = Monitored()

    (first, _, second) = await server.get("/metrics", "/livez", "/metrics")
    server.now += timedelta(seconds=1)
    (later,) = await server.get("/metrics")

    assert server.readings == 2
    assert first == second
    assert "batchq_engine_up 1.0" in first[1]
    assert 'batchq_http_requests_total{class="2xx",operation="GetLiveness"} 1.0' in later[1]


async def test_a_head_request_is_counted_as_its_operation():
    server = Monitored()
    async with TestClient(TestServer(server.app)) as client:
        head = await client.head("/livez")
        text = await (await client.get("/metrics")).text()

    assert head.status == 200
    assert 'batchq_http_requests_total{class="2xx",operation="GetLiveness"} 1.0' in text


async def test_a_request_that_is_no_operation_is_counted_without_its_path():
    server = Monitored()

    *_, (_, text) = await server.get("/secret-name", "/v1/nothing", "/metrics")

    assert 'batchq_http_requests_total{class="4xx",operation="none"} 2.0' in text
    assert "secret-name" not in text


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer right", 200),
        ("bearer right", 200),
        ("Bearer wrong", 403),
        ("Basic right", 403),
        ("Bearer \u00e9", 403),
        ("", 403),
    ],
)
async def test_a_server_with_keys_takes_its_token_only(authorization, status):
    (answer,) = await Monitored(token=lambda: "right").get("/metrics", Authorization=authorization)
    assert answer[0] == status


async def test_a_server_with_keys_and_no_token_refuses_metrics_and_says_what_to_do():
    (answer,) = await Monitored(token=lambda: None).get("/metrics", Authorization="Bearer None")
    assert answer[0] == 403
    assert "--metrics-token-file" in answer[1]


async def test_probes_reply_with_one_word_and_a_status():
    server = Monitored()
    assert await server.get("/livez", "/readyz") == [(200, '{"status":"ok"}')] * 2
    server.works = False
    assert await server.get("/livez", "/readyz") == [(503, '{"status":"unavailable"}')] * 2


@pytest.mark.parametrize(("content", "token"), [(b" abc\n", "abc"), (b"\n", None), (b"\xff", None), (None, None)])
def test_a_token_is_the_content_of_its_file(tmp_path, content, token):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    assert token_in(file) == token

"""The table of explanations is complete, and each of its rows has a scenario."""

import inspect
import re
from datetime import timedelta
from pathlib import Path

import pytest

from batchq.domain import status_reasons
from batchq.domain.explanation import words
from batchq.domain.explanation.codes import Code
from batchq.domain.explanation.explain import explain
from batchq.domain.explanation.facts import BlockedHead, Obstacle, QueuePosition, Reader, RelatedJobs
from batchq.domain.explanation.words import ROWS
from batchq.domain.ids import QueueName
from batchq.domain.job import Status
from tests.support.builders import ADMIN, NOON, job, job_id, scheduler_state

SCENARIOS = Path(__file__).parents[1] / "scenarios"
#: The names in `status_reasons` of the texts that a code explains.
EXPLAINED = {
    Code.SAFE_MODE: {"SAFE_MODE"},
    Code.ENGINE_UNAVAILABLE: {"ENGINE_AWAY"},
    Code.HELD: {"held"},
    Code.PAUSED: {"held"},
    Code.QUEUE_DRAINED: {"QUEUE_DRAINED"},
    Code.NO_ENVIRONMENT: {"NO_ENVIRONMENT"},
    Code.TOO_MANY_VCPUS: {"TOO_MANY_VCPUS", "too_many_vcpus"},
    Code.TOO_LARGE: {"TOO_LARGE", "too_large"},
    Code.ABOVE_ACCOUNT_LIMIT: {"beyond_limit"},
    Code.RESOURCE_MISSING: {"no_such_resource"},
    Code.TOO_MANY_UNITS: {"too_many_units"},
    Code.ACCOUNT_LIMIT: {"at_limit"},
    Code.RESERVED_FOR_SHARES: {"KEPT_FOR_SHARES"},
    Code.WAITS_FOR_VCPUS: {"no_room"},
    Code.WAITS_FOR_MEMORY: {"no_room"},
    Code.WAITS_FOR_GPUS: {"no_room"},
    Code.WAITS_FOR_UNITS: {"no_room"},
    Code.NOT_EXITING: {"UNKILLABLE"},
    Code.EXIT_CODE: {"EXITED", "ALGORITHM_ERROR"},
    Code.OUT_OF_MEMORY: {"OUT_OF_MEMORY"},
    Code.TIMED_OUT: {"TIMED_OUT"},
    Code.IMAGE_UNAVAILABLE: {"NOT_STARTED"},
    Code.NOT_STARTED: {"NOT_STARTED"},
    Code.DEPENDENCY_FAILED: {"DEPENDENCY_FAILED", "dependency_failed"},
    Code.CHILD_FAILED: {"CHILD_FAILED"},
    Code.HOST_LOST: {"HOST_TERMINATED"},
    Code.CONTAINER_LOST: {"DISAPPEARED"},
    Code.BLOCKED_TOO_LONG: {"BLOCKED_TOO_LONG"},
    Code.FORCE_FAILED: {"force_failed"},
    Code.INVALID: {"OVERRIDES_TOO_LONG", "TOO_MANY_TAGS"},
    Code.UNREADABLE: {"UNREADABLE"},
}
NOT_TEXTS = {"code", "of_exit"}  # they take a text apart, and choose one


def test_every_code_has_a_row():
    assert set(ROWS) == set(Code)


def test_every_status_has_a_row():
    assert {status for row in ROWS.values() for status in row.statuses} == set(Status)


def test_every_text_of_a_status_reason_is_explained_by_a_code():
    texts = {
        name
        for name, it in vars(status_reasons).items()
        if name.isupper() or (inspect.isfunction(it) and it.__module__ == status_reasons.__name__)
    }

    assert {name for names in EXPLAINED.values() for name in names} == texts - NOT_TEXTS


def test_every_code_has_a_scenario():
    written = "".join(it.read_text() for it in SCENARIOS.glob("test_*.py"))

    assert set(re.findall(r"Code\.(\w+)", written)) == {it.name for it in Code}


@pytest.mark.parametrize(
    ("render", "value", "text"),
    [
        (words.duration_words, timedelta(seconds=-1), "0 s"),
        (words.duration_words, timedelta(seconds=119), "119 s"),
        (words.duration_words, timedelta(minutes=2), "2 min"),
        (words.duration_words, timedelta(hours=1), "1 h"),
        (words.duration_words, timedelta(hours=2, minutes=5), "2 h 5 min"),
        (words.duration_words, timedelta(days=3, hours=2), "3 d 2 h"),
        *((words.ordinal, *it) for it in [(1, "1st"), (2, "2nd"), (3, "3rd"), (12, "12th"), (1111, "1,111th")]),
        (words.list_words, ["a"], "a"),
        (words.list_words, ["a", "b"], "a and b"),
        (words.list_words, list("abcde"), "a, b, c and 2 more"),
        (words.vcpus_words, 1000, "1 vCPU"),
        (words.vcpus_words, 250, "0.25 vCPUs"),
        (words.vcpus_words, 61_000, "61 vCPUs"),
        (words.vcpus_words, 1_500_500, "1,500.5 vCPUs"),
        (words.quoted, "too\nhot.", '"too hot"'),
        (words.short, "x" * 1000, f"{'x' * (words.MAX_TEXT - 3)}..."),
    ],
)
def test_figures_and_texts_of_users_are_rendered_in_few_words(render, value, text):
    assert render(value) == text


def test_the_lacking_resources_of_a_head_name_no_account():
    line = {"place": QueuePosition(ahead=1, millicpus=1000)}
    reason = status_reasons.no_room("memory", "vCPUs of account secret", "GPUs")
    head = BlockedHead(job_id=job_id(1), reason=reason, since=NOON)

    why = explain(
        job(status=Status.RUNNABLE, runnable_at=NOON),
        RelatedJobs(**line),
        scheduler_state(heads={QueueName("default"): head}),
        Reader(caller=ADMIN),
    )

    assert why.facts["lacking"] == "memory and GPUs"
    assert "secret" not in why.sentence


def test_a_job_that_can_never_start_is_explained_while_the_engine_is_away():
    away = Obstacle(code=Code.ENGINE_UNAVAILABLE, since=NOON)
    reason = status_reasons.too_many_vcpus(16_000, 8000)

    why = explain(
        job(status=Status.RUNNABLE, unschedulable=True, blocked_at=NOON, status_reason=reason),
        RelatedJobs(),
        scheduler_state(obstacle=away),
        Reader(caller=ADMIN),
    )

    assert why.code is Code.TOO_MANY_VCPUS
    assert why.sentence.startswith(
        "Cannot start: requires more vCPUs than any compute environment of queue default has."
    )

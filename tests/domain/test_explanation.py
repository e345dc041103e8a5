"""The table of explanations is complete, and each of its rows has a scenario."""

import inspect
import re
from datetime import timedelta
from pathlib import Path

import pytest

from batchq.domain import status_reasons, wording
from batchq.domain.enums import Status
from batchq.domain.explanation.ended_reasons import NotStartedReason
from batchq.domain.explanation.explain import REASONS, explain
from batchq.domain.explanation.explanation import Figure
from batchq.domain.explanation.facts import BlockedHead, Obstacle, QueuePosition, Reader, RelatedJobs
from batchq.domain.explanation.queued_reasons import EngineUnavailableReason
from batchq.domain.ids import QueueName
from tests.support.builders import ADMIN, NOON, job, job_id, scheduler_state

MAX_LABEL = 48  # characters, with the names of the figures
SCENARIOS = Path(__file__).parents[1] / "scenarios"
#: The names in `status_reasons` of the texts that a code explains.
EXPLAINED = {
    "SAFE_MODE": {"SAFE_MODE"},
    "ENGINE_UNAVAILABLE": {"ENGINE_AWAY"},
    "HELD": {"held"},
    "PAUSED": {"held"},
    "QUEUE_DRAINED": {"QUEUE_DRAINED"},
    "NO_ENVIRONMENT": {"NO_ENVIRONMENT"},
    "TOO_MANY_VCPUS": {"TOO_MANY_VCPUS", "too_many_vcpus"},
    "TOO_LARGE": {"TOO_LARGE", "too_large"},
    "ABOVE_ACCOUNT_LIMIT": {"beyond_limit"},
    "RESOURCE_MISSING": {"no_such_resource"},
    "TOO_MANY_UNITS": {"too_many_units"},
    "ACCOUNT_LIMIT": {"at_limit"},
    "RESERVED_FOR_SHARES": {"KEPT_FOR_SHARES"},
    "WAITS_FOR_VCPUS": {"no_room"},
    "WAITS_FOR_MEMORY": {"no_room"},
    "WAITS_FOR_GPUS": {"no_room"},
    "WAITS_FOR_MACHINE": {"NO_MACHINE"},
    "NO_MACHINE_SELECTED": {"NO_MACHINE_SELECTED"},
    "TOO_LARGE_FOR_MACHINES": {"too_large_for_machines", "TOO_LARGE_FOR_MACHINES"},
    "WAITS_FOR_UNITS": {"no_room"},
    "NOT_EXITING": {"UNKILLABLE"},
    "EXIT_CODE": {"EXITED", "ALGORITHM_ERROR"},
    "OUT_OF_MEMORY": {"OUT_OF_MEMORY"},
    "TIMED_OUT": {"TIMED_OUT"},
    "IMAGE_UNAVAILABLE": {"NOT_STARTED"},
    "NOT_STARTED": {"NOT_STARTED"},
    "DEPENDENCY_FAILED": {"DEPENDENCY_FAILED", "dependency_failed"},
    "CHILD_FAILED": {"CHILD_FAILED"},
    "HOST_LOST": {"HOST_TERMINATED"},
    "CONTAINER_LOST": {"DISAPPEARED"},
    "BLOCKED_TOO_LONG": {"BLOCKED_TOO_LONG"},
    "FORCE_FAILED": {"force_failed"},
    "INVALID": {"OVERRIDES_TOO_LONG", "TOO_MANY_TAGS"},
    "UNREADABLE": {"UNREADABLE"},
}
NOT_TEXTS = {"code", "of_exit"}  # they take a text apart, and choose one


def test_every_status_has_a_reason():
    assert {status for reason in REASONS for status in reason.statuses} == set(Status)


def test_every_text_of_a_status_reason_is_explained_by_a_code():
    texts = {
        name
        for name, value in vars(status_reasons).items()
        if name.isupper() or (inspect.isfunction(value) and value.__module__ == status_reasons.__name__)
    }

    assert {name for names in EXPLAINED.values() for name in names} == texts - NOT_TEXTS


def test_every_code_has_a_scenario():
    written = "".join(path.read_text() for path in SCENARIOS.glob("test_*.py"))

    assert {reason.code for reason in REASONS if f'"{reason.code}"' not in written} == set()


def test_every_reason_has_a_label_of_words_that_its_sentence_has():
    for reason in REASONS:
        label, sentence = (set(re.findall(r"{(\w+)}", texts[-1])) for texts in (reason.labels, reason.sentences))

        assert label <= sentence, reason.code
        assert all(len(text) <= MAX_LABEL for text in reason.labels), reason.code


@pytest.mark.parametrize(
    ("render", "value", "text"),
    [
        (wording.duration_words, timedelta(seconds=-1), "0 s"),
        (wording.duration_words, timedelta(seconds=119), "119 s"),
        (wording.duration_words, timedelta(minutes=2), "2 min"),
        (wording.duration_words, timedelta(hours=1), "1 h"),
        (wording.duration_words, timedelta(hours=2, minutes=5), "2 h 5 min"),
        (wording.duration_words, timedelta(days=3, hours=2), "3 d 2 h"),
        *((wording.seconds_words, *case) for case in [(0, "0.0 s"), (0.012, "12 ms"), (0.1, "0.1 s"), (10, "10 s")]),
        *((wording.ordinal, *case) for case in [(1, "1st"), (2, "2nd"), (3, "3rd"), (12, "12th"), (1111, "1,111th")]),
        (wording.list_words, ["a"], "a"),
        (wording.list_words, ["a", "b"], "a and b"),
        (wording.list_words, list("abcde"), "a, b, c and 2 more"),
        (wording.bytes_words, 0, "0 MiB"),
        (wording.bytes_words, 2**19, "0.5 MiB"),
        (wording.vcpus_words, 1000, "1 vCPU"),
        (wording.vcpus_words, 250, "0.25 vCPUs"),
        (wording.vcpus_words, 61_000, "61 vCPUs"),
        (wording.vcpus_words, 1_500_500, "1,500.5 vCPUs"),
        (wording.quoted, "too\nhot.", '"too hot"'),
        (wording.short, "x" * 1000, f"{'x' * (wording.MAX_TEXT - 3)}..."),
    ],
)
def test_figures_and_texts_of_users_are_rendered_in_few_words(render, value, text):
    assert render(value) == text


def test_a_cut_text_ends_a_sentence_with_three_dots():
    reason = Figure.text(wording.short("x" * 1000))
    assert NotStartedReason(figures={"reason": reason}).sentence.endswith("xxx...")


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
    away = Obstacle(reason=EngineUnavailableReason, since=NOON)
    reason = status_reasons.too_many_vcpus(16_000, 8000)

    why = explain(
        job(status=Status.RUNNABLE, unschedulable=True, blocked_at=NOON, status_reason=reason),
        RelatedJobs(),
        scheduler_state(obstacle=away),
        Reader(caller=ADMIN),
    )

    assert why.code == "TOO_MANY_VCPUS"
    assert why.sentence.startswith(
        "Cannot start: requires more vCPUs than any compute environment of queue default has."
    )

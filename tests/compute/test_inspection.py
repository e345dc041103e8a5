"""The inspection of a container: which responses of the engine are accepted (D1, D20, D28, EN27)."""

from datetime import UTC, datetime

import pytest

from batchq.compute.docker.client import common_version
from batchq.compute.docker.create_request import container_labels
from batchq.compute.docker.inspection import parse_inspection, parse_survey, stop_signal
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import ContainerState, Inspection
from tests.support.containers import new_tag

NEVER = "0001-01-01T00:00:00Z"
BEGUN = "2026-11-21T11:28:21.414364123Z"
BEGUN_AT = datetime(2026, 11, 21, 11, 28, 21, 414364, tzinfo=UTC)
LATER = "2026-11-21T11:28:22.5Z"
LATER_AT = datetime(2026, 11, 21, 11, 28, 22, 500000, tzinfo=UTC)
TAG, OTHER = new_tag(), new_tag()
CREATED, RUNNING = ContainerState.CREATED, ContainerState.RUNNING
END = {"state": ContainerState.EXITED, "started_at": BEGUN_AT, "stopped_at": BEGUN_AT, "exit_code": 0}


def inspected(**state):
    usual = {"Status": "exited", "StartedAt": BEGUN, "FinishedAt": BEGUN, "ExitCode": 0, "OOMKilled": False}
    return parse_inspection(TAG, {"State": usual | state})


def unexpected(container_id, tag):
    raise AssertionError(container_id, tag)


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({"Status": "created", "StartedAt": NEVER, "FinishedAt": NEVER}, {"state": CREATED}),
        ({"Status": "exited", "StartedAt": NEVER, "FinishedAt": NEVER}, {"state": CREATED}),
        ({"Status": "running", "FinishedAt": NEVER}, {"state": RUNNING, "started_at": BEGUN_AT}),
        ({"Status": "paused", "FinishedAt": NEVER}, {"state": RUNNING, "started_at": BEGUN_AT}),
        ({"Status": "restarting", "FinishedAt": NEVER}, {"state": RUNNING, "started_at": BEGUN_AT}),
        (
            {"Status": "running", "StartedAt": "2026-11-21T12:28:21.414364+01:00"},
            {"state": RUNNING, "started_at": BEGUN_AT},
        ),
        ({"Status": "removing"}, {"state": ContainerState.GOING, "started_at": BEGUN_AT}),
        ({"FinishedAt": LATER, "ExitCode": 143}, END | {"stopped_at": LATER_AT, "exit_code": 143}),
        ({"Status": "dead", "FinishedAt": LATER}, END | {"stopped_at": LATER_AT}),
        ({"OOMKilled": True, "ExitCode": 137}, END | {"out_of_memory": True, "exit_code": 137}),
        ({"FinishedAt": "2026-11-21T11:28:21.4Z"}, END),  # before the start
        ({"FinishedAt": NEVER}, END),
        ({"Status": "dreaming", "Pid": 7, "FinishedAt": NEVER}, {"state": RUNNING, "started_at": BEGUN_AT}),
        ({"Status": "dreaming", "Pid": 0, "StartedAt": NEVER, "FinishedAt": NEVER}, {"state": CREATED}),
        ({"Status": "dreaming", "Pid": 0, "ExitCode": 3}, END | {"exit_code": 3}),
    ],
)
@pytest.mark.fault("EN27", "EN30")
def test_an_inspection_has_the_state_and_the_times_of_the_container(members, found):
    assert inspected(**members) == Inspection(tag=TAG, **found)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"Status": "dreaming"},
        {"Status": "dreaming", "Pid": 0, "FinishedAt": NEVER},
        {"StartedAt": "noon"},
        {"StartedAt": None},
        {"Status": "running", "StartedAt": NEVER},
        {"ExitCode": "0"},
        {"Status": []},
    ],
)
def test_invalid_members_are_an_unknown_outcome(nonsense):
    with pytest.raises(RuntimeUnknown):
        inspected(**nonsense)


@pytest.mark.parametrize(
    ("of_image", "sent"),
    [
        ("SIGINT", "SIGINT"),
        ("quit", "quit"),
        ("SIGRTMIN+3", "SIGRTMIN+3"),
        ("37", "37"),
        *((nonsense, "SIGTERM") for nonsense in ("", None, "SIGFOO", "99", "0", "-9", "SIGTERM x", 15)),
    ],
)
def test_a_stop_signal_that_does_not_exist_counts_as_none(of_image, sent):
    """The engine refuses to send it, so the job could not be stopped."""
    assert stop_signal({"Config": {"StopSignal": of_image}}) == sent


def test_a_survey_omits_foreign_containers():
    rows = [
        {"Id": "a", "State": "running", "Labels": container_labels("i1", TAG)},
        {"Id": "b", "State": "running", "Labels": container_labels("i2", TAG)},
        {"Id": "c", "State": "running", "Labels": None},
    ]

    assert parse_survey(rows, "i1", unexpected) == {"a": Inspection(tag=TAG, state=ContainerState.RUNNING)}


@pytest.mark.parametrize("word", ["dreaming", None, 5])
def test_a_container_in_an_unknown_state_is_inspected_and_fails_no_survey(word):
    rows = [
        {"Id": "a", "State": word, "Labels": container_labels("i1", TAG)},
        {"Id": "b", "State": "running", "Labels": container_labels("i1", OTHER)},
    ]

    seen = parse_survey(rows, "i1", lambda container_id, _: {"a": ContainerState.EXITED}[container_id])

    assert [container.state for container in seen.values()] == [ContainerState.EXITED, ContainerState.RUNNING]


@pytest.mark.parametrize(
    ("newest", "oldest", "spoken"),
    [
        ("1.41", "1.12", "1.41"),
        ("1.45", "1.24", "1.45"),
        ("1.50", "1.24", "1.45"),
        ("1.52", "1.44", "1.45"),
        ("1.60", "1.50", "1.50"),
        ("1.41", None, "1.41"),
        ("1.9", "", "1.9"),
    ],
)
def test_the_newest_common_version_is_used(newest, oldest, spoken):
    assert common_version(newest, oldest) == spoken

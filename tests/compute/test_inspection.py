"""The inspection of a container: which responses of the engine are accepted (D1, D20, D28, EN27)."""

from datetime import UTC, datetime, timedelta

import pytest

from batchq.compute.docker.client import common_version
from batchq.compute.docker.create_request import container_labels
from batchq.compute.docker.inspection import parse_inspection, parse_survey
from batchq.errors import EngineUnknown
from batchq.ports.runtime import ContainerState, Inspection
from tests.support.containers import new_tag

NEVER = "0001-01-01T00:00:00Z"
BEGUN = "2026-11-21T11:28:21.414364123Z"
BEGUN_AT = datetime(2026, 11, 21, 11, 28, 21, 414364, tzinfo=UTC)
TAG, OTHER = new_tag(), new_tag()


def inspected(**state):
    usual = {"Status": "exited", "StartedAt": BEGUN, "FinishedAt": BEGUN, "ExitCode": 0, "OOMKilled": False}
    return parse_inspection(TAG, {"State": usual | state})


def unexpected(container_id, tag):
    raise AssertionError(container_id, tag)


@pytest.mark.parametrize(
    ("members", "state"),
    [
        ({"Pid": 7, "FinishedAt": NEVER}, ContainerState.RUNNING),
        ({"Pid": 0, "StartedAt": NEVER, "FinishedAt": NEVER}, ContainerState.CREATED),
        ({"Pid": 0, "ExitCode": 3}, ContainerState.EXITED),
    ],
)
def test_an_unknown_state_is_derived_from_the_other_members(members, state):
    it = inspected(Status="dreaming", **members)

    assert it.state is state
    assert it.exit_code == (3 if state is ContainerState.EXITED else None)


@pytest.mark.parametrize("status", ["created", "exited"])
@pytest.mark.fault("EN27", "EN30")
def test_a_container_that_never_started_has_no_end(status):
    it = inspected(Status=status, StartedAt=NEVER, FinishedAt=NEVER, ExitCode=0)

    assert it == Inspection(tag=TAG, state=ContainerState.CREATED)


@pytest.mark.parametrize("status", ["running", "paused", "restarting"])
@pytest.mark.fault("EN30")
def test_a_running_container_has_no_end(status):
    it = inspected(Status=status, FinishedAt=NEVER)

    assert it == Inspection(tag=TAG, state=ContainerState.RUNNING, started_at=BEGUN_AT)


def test_a_container_being_removed_is_going():
    assert inspected(Status="removing").state is ContainerState.GOING


@pytest.mark.parametrize("status", ["exited", "dead"])
def test_an_exited_container_has_its_exit_code_and_times(status):
    it = inspected(Status=status, FinishedAt="2026-11-21T11:28:22.5Z", ExitCode=143)

    assert (it.state, it.exit_code) == (ContainerState.EXITED, 143)
    assert it.stopped_at - it.started_at == timedelta(seconds=1, microseconds=85636)


@pytest.mark.parametrize("finished", ["2026-11-21T11:28:21.4Z", NEVER])
@pytest.mark.fault("EN27")
def test_no_end_is_before_its_start(finished):
    it = inspected(FinishedAt=finished)

    assert it.stopped_at == it.started_at == BEGUN_AT


def test_times_of_other_zones_are_utc():
    it = inspected(Status="running", StartedAt="2026-11-21T12:28:21.414364+01:00")

    assert it.started_at == BEGUN_AT


@pytest.mark.parametrize("killed", [True, False])
def test_lack_of_memory_is_reported_as_the_engine_does(killed):
    assert inspected(OOMKilled=killed, ExitCode=137).out_of_memory is killed


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
    with pytest.raises(EngineUnknown):
        inspected(**nonsense)


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

    assert [it.state for it in seen.values()] == [ContainerState.EXITED, ContainerState.RUNNING]


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

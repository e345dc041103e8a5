"""What recorded pods of two containers show about each, by the mark of the container."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from batchq.compute.kubernetes.pod_names import (
    CONTAINERS,
    HELD_IMAGE,
    MARK,
    NODE,
    REPLACES,
    ContainerMark,
    name_in_pod,
    replaced_uids,
    tags_of_pod,
)
from batchq.compute.kubernetes.pod_names import all_tags_of_pod as all_tags
from batchq.compute.kubernetes.pod_state import read_pod
from batchq.domain.ids import JobId, Tag
from batchq.errors import ImageUnavailable
from batchq.ports.runtime import ContainerState

RECORDED = Path(__file__).parent / "recorded"
FIRST, SECOND = (Tag(job_id=JobId("j"), attempt=1, container_key=f"0/{name}") for name in ("c0", "c1"))
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
WITHDRAWN = "withdrawn: CannotPullContainerError: gone"

pytestmark = pytest.mark.parametrize("version", ["1.20.2", "1.36.2"])


def recorded(version, name, first=ContainerMark.STARTED, second=ContainerMark.CREATED):
    pod = json.loads((RECORDED / version / f"{name}.json").read_text())
    pod["metadata"]["annotations"] = {
        "io.batchq.job": "j",
        "io.batchq.attempt": "1",
        NODE: "0",
        CONTAINERS: '{"c0": "c0", "c1": "c1"}',
        f"{MARK}c0": first,
        f"{MARK}c1": second,
    }
    pod["metadata"] |= {"name": "bq-i1-j-1-0", "labels": {"io.batchq.instance": "i1"}}
    return pod


def read(pod, tag):
    return read_pod(pod, tag, seen=None, now=NOW, is_old=False)


@pytest.mark.parametrize("mark", [ContainerMark.HELD, ContainerMark.CREATED])
def test_a_held_container_has_not_run_and_is_not_refused(version, mark):
    pod = recorded(version, "task-one-held", second=mark)

    first, second = read(pod, FIRST), read(pod, SECOND)

    assert (first.state, first.inspection.address) == (ContainerState.RUNNING, pod["status"]["podIP"])
    assert (second.state, second.refusal, second.is_spent) == (ContainerState.CREATED, None, False)


def test_a_container_that_just_got_its_image_is_under_way(version):
    """The kubelet still reports the refused pull of the held image, beside either image."""
    for image in (HELD_IMAGE, "batchq-test:latest"):
        pod = recorded(version, "task-one-held", second=ContainerMark.STARTED)
        pod["status"]["containerStatuses"][1]["image"] = image

        found = read(pod, SECOND)

        assert (found.state, found.refusal) == (ContainerState.CREATED, None)
        assert found.waits_for is not None


def test_a_container_that_ended_has_its_own_code_while_another_is_held(version):
    pod = recorded(version, "task-one-ended-one-held")

    first, second = read(pod, FIRST), read(pod, SECOND)

    assert (first.state, first.inspection.exit_code) == (ContainerState.EXITED, 0)
    assert (second.state, second.is_spent) == (ContainerState.CREATED, False)


def test_a_container_that_was_held_until_its_pod_ended_never_ran(version):
    pod = recorded(version, "task-stopped-one-held")

    second = read(pod, SECOND)

    assert (second.state, second.is_spent, second.inspection.exit_code) == (ContainerState.CREATED, True, None)


def test_a_withdrawn_container_will_not_run_once_its_node_waits_for_the_held_image(version):
    pod = recorded(version, "task-one-held", second=WITHDRAWN)
    before = recorded(version, "task-one-held", second=WITHDRAWN)
    before["status"]["containerStatuses"][1]["image"] = "absent:1"

    final, open_yet = read(pod, SECOND), read(before, SECOND)

    assert final.is_spent
    assert isinstance(final.refusal, ImageUnavailable)
    assert str(final.refusal) == "CannotPullContainerError: gone"
    assert (open_yet.is_spent, open_yet.refusal) == (False, None)


def test_a_withdrawn_container_that_ran_after_all_has_its_code(version):
    pod = recorded(version, "task-one-ended-one-held", first=WITHDRAWN)

    assert read(pod, FIRST).inspection.exit_code == 0


def test_a_killed_container_that_waits_for_the_held_image_has_the_end_of_its_last_state(version):
    pod = recorded(version, "task-one-ended-one-held")
    status = pod["status"]["containerStatuses"][0]
    status["lastState"], status["state"] = status["state"], {"waiting": {"reason": "ErrImagePull"}}

    found = read(pod, FIRST)

    assert (found.state, found.inspection.exit_code) == (ContainerState.EXITED, 0)


def test_the_containers_of_a_pod_are_those_that_were_created_and_not_removed(version):
    pod = recorded(version, "task-one-held", second=ContainerMark.HELD)
    removed = recorded(version, "task-one-held", first=ContainerMark.REMOVED)

    assert tags_of_pod(pod, "i1") == {"c0": FIRST}
    assert tags_of_pod(removed, "i1") == {"c1": SECOND}
    assert all_tags(removed, "i1") == {"c0": FIRST, "c1": SECOND}
    assert tags_of_pod(pod, "i2") == {}


def test_annotations_that_batchq_did_not_write_name_no_containers(version):
    pod = recorded(version, "task-one-held")
    pod["metadata"]["annotations"] |= {CONTAINERS: "not JSON", REPLACES: "u1 u2"}

    assert all_tags(pod, "i1") == {}
    assert replaced_uids(pod) == ("u1", "u2")


def test_a_name_that_kubernetes_does_not_allow_becomes_a_hash(version):
    names = {
        name_in_pod(Tag(job_id=JobId(version), attempt=1, container_key=f"0/{name}")) for name in ("App_1", "App_2")
    }

    assert len(names) == 2
    assert all(name.startswith("c-") and len(name) == 18 for name in names)

"""Section by section: what recorded pods of Kubernetes 1.20.2 and 1.36.2 show about their container."""

import json
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from batchq.compute.kubernetes.pod_names import DELETED_FOR
from batchq.compute.kubernetes.pod_state import REMOVE, STOP, WITHDRAW, SeenRun, read_pod, seen_run
from batchq.compute.kubernetes.pods import decode_pod
from batchq.compute.kubernetes.start_refusals import mount_refusal
from batchq.domain.ids import JobId, Tag
from batchq.errors import ImageUnavailable, StartHadNoEffect, StartRefused
from batchq.ports.runtime import ContainerState, Inspection

RECORDED = Path(__file__).parent / "recorded"
VERSIONS = ("1.20.2", "1.36.2")
TAG = Tag(job_id=JobId("j"), attempt=1)
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
BEFORE = datetime(2026, 11, 24, 3, 0, tzinfo=UTC)
SEEN = SeenRun(container_id="containerd://first", started_at=BEFORE)

pytestmark = pytest.mark.parametrize("version", VERSIONS)


def recorded(version, name, deleted_for=None):
    pod = json.loads((RECORDED / version / f"{name}.json").read_text()) | {"recordedBy": version}
    if deleted_for is not None:
        pod["metadata"]["annotations"] = {DELETED_FOR: deleted_for}
    return pod


def read(pod, seen=None, now=NOW):
    return read_pod(pod, TAG, seen=seen, now=now, is_old=pod.get("recordedBy") == "1.20.2")


def waiting(pod, why, **status):
    changed = deepcopy(pod)
    changed["status"]["containerStatuses"][0] |= {"state": {"waiting": {"reason": why}}, "containerID": ""}
    changed["status"] |= status
    return changed


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("unbound", ContainerState.CREATED),
        ("deleted-unbound", ContainerState.GOING),
        ("creating", ContainerState.CREATED),
        ("running", ContainerState.RUNNING),
        ("running-node-away", ContainerState.RUNNING),
        ("stopping-by-delete", ContainerState.RUNNING),
        ("failed-mount", ContainerState.CREATED),
    ],
)
def test_a_container_that_has_not_ended(version, name, state):
    found = read(recorded(version, name))

    assert found.state is state
    assert (found.refusal, found.is_spent, found.inspection.exit_code) == (None, False, None)
    assert (found.inspection.started_at is not None) == (state is ContainerState.RUNNING)


@pytest.mark.parametrize(("name", "waits"), [("creating", True), ("failed-mount", True), ("unbound", False)])
def test_only_a_bound_container_that_has_not_started_waits(version, name, waits):
    assert (read(recorded(version, name)).waits_for is not None) == waits


@pytest.mark.parametrize(
    ("name", "code", "out_of_memory", "host_lost"),
    [
        ("ended-0", 0, False, False),
        ("ended-3", 3, False, False),
        ("ended-3-phase-open", 3, False, False),
        ("ended-255", 255, False, False),
        ("oom", 137, True, False),
        ("oom-child", 5, True, False),
        ("power-lost", 255, False, True),
    ],
)
def test_a_container_that_has_ended(version, name, code, out_of_memory, host_lost):
    found = read(recorded(version, name)).inspection

    assert (found.state, found.exit_code) == (ContainerState.EXITED, code)
    assert (found.out_of_memory, found.host_lost) == (out_of_memory, host_lost)
    assert found.started_at <= found.stopped_at <= NOW


def test_times_are_reported_a_second_later_because_kubernetes_cuts_them(version):
    pod = recorded(version, "ended-3")
    finished = datetime.fromisoformat(
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    ).astimezone(UTC)

    assert read(pod).inspection.started_at == finished + timedelta(seconds=1)
    assert read(pod).inspection.stopped_at == finished + timedelta(seconds=1)
    assert read(pod, now=finished + timedelta(seconds=0.2)).inspection.stopped_at == finished + timedelta(seconds=0.2)


def test_all_reports_of_an_end_are_equal(version):
    pod = recorded(version, "ended-3")
    at = datetime.fromisoformat(pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
    first = read(pod, now=at)

    assert read(pod, seen=seen_run(first)).inspection == first.inspection


@pytest.mark.parametrize(("by_batchq", "host_lost"), [(STOP, False), (None, True)])
def test_only_a_deletion_by_another_client_counts_as_a_loss_of_the_host(version, by_batchq, host_lost):
    found = read(recorded(version, "stopped-by-delete", by_batchq)).inspection

    assert (found.exit_code, found.host_lost) == (7, host_lost)


def test_a_kill_by_the_deadline_is_read_from_the_container(version):
    found = read(recorded(version, "stopped-by-deadline")).inspection

    # On 1.20 the container still ran in spite of the terminal phase.
    if version == "1.20.2":
        assert found.state is ContainerState.RUNNING
    else:
        assert (found.state, found.exit_code, found.host_lost) == (ContainerState.EXITED, 7, False)


@pytest.mark.parametrize("name", ["image-missing", "image-back-off", "image-name-invalid", "image-never-pull"])
def test_an_image_that_cannot_be_pulled(version, name):
    found = read(recorded(version, name))

    assert found.inspection == Inspection(tag=TAG, state=ContainerState.CREATED)
    assert isinstance(found.refusal, ImageUnavailable)
    assert str(found.refusal).startswith("CannotPullContainerError: ")
    assert not found.is_spent


def test_a_container_that_cannot_be_configured(version):
    found = read(recorded(version, "config-error"))

    assert isinstance(found.refusal, StartRefused)
    assert found.refusal.reason == 'CannotCreateContainerError: secret "none" not found'
    assert found.refusal.certain


@pytest.mark.parametrize(("name", "code"), [("start-error", 127), ("not-executable", 126), ("bad-directory", None)])
def test_a_program_that_cannot_be_started_has_not_run(version, name, code):
    found = read(recorded(version, name))

    assert found.inspection == Inspection(tag=TAG, state=ContainerState.CREATED)
    assert found.is_spent
    assert found.refusal.reason.startswith("CannotStartContainerError: failed to create containerd task: ")
    assert (found.refusal.certain, found.refusal.host_failed) == (True, False)
    if code is not None:
        assert found.refusal.exit_code == code


NO_ANSWER_OF_RUNC = (
    "failed to create containerd task: OCI runtime create failed: unable to retrieve OCI runtime error "
    "(open /run/containerd/k8s.io/x/log.json: no such file or directory): "
    "runc did not terminate successfully: signal: killed: unknown"
)
#: Seen on 1.20.2: the kubelet was killed, so containerd gave up the request and killed the command.
KILLED_SHIM = "failed to create containerd task: failed to start shim: start failed: : signal: killed: unknown"


@pytest.mark.parametrize(
    ("message", "host_failed"),
    [
        ("failed to create containerd task: failed to create shim task: context canceled", True),
        ("failed to create containerd task: failed to get task pid: context canceled: unknown", True),
        (NO_ANSWER_OF_RUNC, True),
        (KILLED_SHIM, True),
        ('runc create failed: exec: "context canceled": executable file not found: context canceled', False),
        ('error mounting "/x" to rootfs: connection refused', False),
    ],
)
def test_a_job_cannot_forge_the_text_of_a_failed_host(version, message, host_failed):
    pod = recorded(version, "start-error")
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = message

    found = read(pod)

    assert (found.refusal.host_failed, found.is_spent) == (host_failed, True)


def test_a_container_whose_host_failed_after_its_creation_may_have_run(version):
    pod = recorded(version, "start-error")
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = (
        "failed to start containerd task: context canceled: unknown"
    )

    found = read(pod)

    assert (found.state, found.inspection.host_lost, found.refusal) == (ContainerState.EXITED, True, None)


def test_an_exit_with_0_of_a_container_that_was_not_seen_to_start_is_no_success(version):
    """The report of a kubelet of 1.20.2 that was killed during the start; the program had not run."""
    pod = recorded(version, "start-error")
    pod["status"]["phase"] = "Succeeded"
    pod["status"]["containerStatuses"][0]["state"]["terminated"] = {
        "exitCode": 0,
        "startedAt": None,
        "finishedAt": None,
        "containerID": "containerd://1",
    }

    found = read(pod)
    later = read(pod, seen=seen_run(found))

    assert later.inspection == found.inspection
    assert (found.state, found.inspection.host_lost) == (ContainerState.EXITED, True)
    assert found.inspection.exit_code != 0
    assert found.container_id == "containerd://1"


@pytest.mark.parametrize(
    "message",
    [
        'failed to reserve container name "main_pod_default_0": name "main_pod_default_0" is reserved for "e1"',
        "failed to create containerd container: failed to rename: rename /snapshots/new-1 /snapshots/202: file exists",
        "context deadline exceeded",
        "rpc error: code = Unavailable desc = error reading from server: EOF",
    ],
)
@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_a_container_that_the_host_failed_to_create_may_be_created_anew(version, message, is_withdrawn):
    if is_withdrawn:
        pod = recorded(version, "withdrawn-at-start", f"{WITHDRAW}CannotCreateContainerError: {message}")
    else:
        pod = recorded(version, "config-error")
        status = pod["status"]["containerStatuses"][0]
        status["state"]["waiting"] = {"reason": "CreateContainerError", "message": message}

    found = read(pod)

    if is_withdrawn and version == "1.20.2":  # the deletion is confirmed without an end: the container may have run
        assert found.inspection.host_lost
        return
    assert str(found.refusal) == f"CannotCreateContainerError: {message}"
    assert (found.refusal.certain, found.refusal.host_failed, found.is_spent) == (False, True, is_withdrawn)


@pytest.mark.parametrize("name", ["out-of-cpu", "out-of-memory", "node-affinity"])
def test_a_pod_that_its_node_did_not_admit_may_be_replaced(version, name):
    found = read(recorded(version, name))

    assert found.inspection == Inspection(tag=TAG, state=ContainerState.CREATED)
    assert found.is_spent
    assert isinstance(found.refusal, StartHadNoEffect)


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity", "UnexpectedAdmissionError"])
def test_a_refusal_by_the_admission_of_a_node_is_known_by_its_reason(version, reason):
    pod = recorded(version, "out-of-cpu")
    pod["status"] |= {"reason": reason, "message": "the text of another version"}

    found = read(pod)

    assert (found.state, found.is_spent) == (ContainerState.CREATED, True)
    assert isinstance(found.refusal, StartHadNoEffect)
    assert str(found.refusal) == "start: the text of another version"


@pytest.mark.parametrize("phase", ["Running", "Failed"])
@pytest.mark.parametrize("by_batchq", [STOP, None])
def test_a_container_of_a_node_that_was_deleted_runs_until_its_end_is_reported(version, phase, by_batchq):
    """The controller of deleted nodes confirms the deletion of the pod, and not the end of the container."""
    pod = recorded(version, "running", by_batchq)
    pod["metadata"] |= {"deletionTimestamp": "2026-11-24T03:00:00Z", "deletionGracePeriodSeconds": 0}
    pod["status"] |= {"phase": phase, "conditions": [{"type": "DisruptionTarget", "status": "True"}]}

    found = read(pod)

    assert (found.state, found.is_spent, found.inspection.host_lost) == (ContainerState.RUNNING, False, False)


def test_a_pod_that_its_node_forbids_is_refused(version):
    found = read(recorded(version, "sysctl-forbidden"))

    assert isinstance(found.refusal, StartRefused)
    assert (found.refusal.forbidden, found.is_spent) == (True, True)


@pytest.mark.parametrize("name", ["withdrawn-at-start", "withdrawn-image-missing"])
def test_a_withdrawn_pod_has_not_run_and_shows_why_it_was_withdrawn(version, name):
    why = "CannotPullContainerError: not found"

    found = read(recorded(version, name, f"{WITHDRAW}{why}"))

    assert (found.state, found.is_spent) == (ContainerState.CREATED, True)
    assert isinstance(found.refusal, ImageUnavailable)
    assert str(found.refusal) == why


def test_a_pod_deleted_during_its_start_by_another_client_is_lost(version):
    """1.20 shows no end, whether the container ran or not: the kubelet only confirms that the pod is over."""
    found = read(recorded(version, "withdrawn-at-start"))

    assert (found.inspection.exit_code, found.inspection.host_lost) == (137, True)


def test_a_container_that_starts_a_second_time_is_lost_and_must_be_killed(version):
    found = read(recorded(version, "running"), seen=SEEN)

    assert (found.inspection.exit_code, found.inspection.host_lost) == (137, True)
    assert found.ran_twice
    assert found.inspection.started_at == BEFORE


def test_a_container_that_ran_and_is_created_again_runs_until_its_node_decides(version):
    pod = recorded(version, "creating")

    undecided = read(pod, seen=SEEN)
    decided = read(waiting(pod, "ContainerCreating", phase="Failed"), seen=SEEN)

    assert undecided.inspection == Inspection(tag=TAG, state=ContainerState.RUNNING, started_at=BEFORE)
    assert (decided.inspection.exit_code, decided.inspection.host_lost) == (137, True)


def test_a_container_that_batchq_has_stopped_is_not_lost_with_its_host_if_its_end_is_not_reported(version):
    """A busy kubelet removes such a container before it has read the exit code."""
    pod = waiting(recorded(version, "creating"), "ContainerCreating", phase="Failed")
    pod["metadata"].setdefault("annotations", {})[DELETED_FOR] = STOP

    found = read(pod, seen=SEEN).inspection

    assert (found.exit_code, found.host_lost) == (137, False)


def test_a_restarted_container_is_known_without_an_earlier_reading(version):
    pod = waiting(recorded(version, "creating"), "ContainerCreating", phase="Failed")
    pod["status"]["containerStatuses"][0]["restartCount"] = 1

    found = read(pod).inspection

    assert (found.exit_code, found.host_lost) == (137, True)


def test_a_pod_whose_added_init_container_failed_has_not_run(version):
    found = read(waiting(recorded(version, "creating"), "PodInitializing", phase="Failed"))

    assert (found.state, found.is_spent) == (ContainerState.CREATED, True)
    assert (str(found.refusal), found.refusal.certain) == (
        "CannotStartContainerError: an init container of the cluster failed",
        False,
    )


def test_a_start_that_the_deadline_ended_has_not_run(version):
    pod = waiting(recorded(version, "image-missing"), "ImagePullBackOff", phase="Failed", reason="DeadlineExceeded")

    found = read(pod)

    assert (found.state, found.is_spent) == (ContainerState.CREATED, True)


@pytest.mark.parametrize("reason", ["Evicted", "NodeLost", "NodeShutdown", "Preempting", "Terminated"])
def test_a_pod_that_its_node_ended_is_lost_unless_its_container_succeeded(version, reason):
    ended, succeeded = recorded(version, "ended-3"), recorded(version, "ended-0")
    for pod in (ended, succeeded):
        pod["status"]["reason"] = reason

    assert read(ended).inspection.host_lost
    assert not read(succeeded).inspection.host_lost


def test_a_drained_pod_is_lost_with_its_own_exit_code(version):
    pod = recorded(version, "ended-3")
    pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]

    assert (read(pod).inspection.exit_code, read(pod).inspection.host_lost) == (3, True)


def test_a_starting_pod_whose_node_was_deleted_may_have_run(version):
    pod = waiting(recorded(version, "creating"), "ContainerCreating", phase="Failed")
    pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]

    found = read(pod)

    assert (found.is_spent, found.inspection.host_lost) == (False, True)


def test_the_events_of_a_pod_show_a_volume_that_cannot_be_mounted(version):
    events = json.loads((RECORDED / version / "failed-mount-events.json").read_text())

    assert mount_refusal(events).reason == (
        'CannotCreateContainerError: MountVolume.SetUp failed for volume "x" : '
        "hostPath type check failed: /no/such/dir is not a directory"
    )
    assert mount_refusal({"items": []}) is None


def test_every_recorded_pod_can_be_read(version):
    files = sorted((RECORDED / version).glob("*.json"))
    pods = [pod for pod in map(json.loads, map(Path.read_text, files)) if pod.get("kind") == "Pod"]

    assert len(pods) > 30
    for pod in pods:
        assert read(pod).inspection.tag == TAG
        assert str(read(decode_pod(json.dumps(pod)))) == str(read(pod))  # without what lists and watches leave out


@pytest.mark.parametrize(
    ("name", "state"),
    [("running", ContainerState.RUNNING), ("ended-3", ContainerState.GOING), ("creating", ContainerState.GOING)],
)
def test_a_removed_pod_runs_until_its_end_and_is_then_gone(version, name, state):
    pod = recorded(version, name, REMOVE)
    assert read(pod).state is not ContainerState.GOING  # its finalizer is still there

    pod["metadata"]["finalizers"] = []
    assert read(pod).state is not ContainerState.GOING  # the server ended before it deleted the pod
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert read(pod).state is state


def test_a_deletion_by_another_client_without_a_grace_does_not_confirm_that_nothing_runs(version):
    """`kubectl delete --force`: the node may be about to start the container. 1.20 has no other sign of the end."""
    pod = recorded(version, "creating")
    pod["metadata"] |= {"deletionTimestamp": "2026-11-24T03:00:00Z", "deletionGracePeriodSeconds": 0}

    found = read(pod)
    assert (found.is_spent, found.inspection.host_lost) == (False, version == "1.20.2")

    pod["status"]["phase"] = "Failed"
    assert read(pod).is_spent


def test_the_times_of_a_node_whose_clock_is_behind_begin_with_the_creation_of_the_pod(version):
    pod, minutes = recorded(version, "ended-3"), timedelta(minutes=10)
    end = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    created, started, finished = (
        datetime.fromisoformat(text)
        for text in (pod["metadata"]["creationTimestamp"], end["startedAt"], end["finishedAt"])
    )
    end |= {"startedAt": f"{started - minutes:%FT%TZ}", "finishedAt": f"{finished - minutes:%FT%TZ}"}

    found = read(pod).inspection

    assert found.started_at == created
    assert found.stopped_at - found.started_at == finished - started

"""The pod of a launch: what is refused, what is escaped, and what each member of a container becomes."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.compute.kubernetes.pod_names import FINALIZER, HELD_IMAGE, name_in_pod, pod_name, tags_of_pod
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.pod_spec import build_pod, build_secret, escape_expansion
from batchq.domain.access.accounts import ContainerPolicy
from batchq.domain.catalog import Network
from batchq.domain.container import ContainerSpec, Device, Logging, Mount, Resources, Secret, TextFile, Tmpfs, Ulimit
from batchq.domain.ids import JobId, Tag
from batchq.domain.task import TaskContainer
from batchq.errors import StartRefused
from batchq.ports.runtime import LaunchSpec
from batchq.settings import MissingHostPaths, Privileged, Settings
from tests.support.examples import examples

TAG = Tag(job_id=JobId("8f2c51a7-0000-4000-8000-000000000000:7"), attempt=2)
POLICY = PodPolicy(privileged=Privileged.ALLOW, volumes=(Path("/data"),), private=(Path("/data/batchq"),))


def launch(policy=None, environment=(), **members):
    resources = members.pop("resources", Resources(millicpus=1500, memory_mib=64))
    changes = {
        name: members.pop(name) for name in ("tag", "network", "checkpoint_directory", "allowances") if name in members
    }
    spec = ContainerSpec(image="busybox", resources=resources, **members)
    return LaunchSpec(**{"tag": TAG, "spec": spec, "environment": environment} | changes)


def pod_of(policy=POLICY, **members):
    return build_pod(launch(**members), instance="i1", policy=policy, namespace="jobs")


def container_of(policy=POLICY, **members):
    return pod_of(policy, **members)["spec"]["containers"][0]


def refusal_of(policy=POLICY, **members):
    with pytest.raises(StartRefused) as refused:
        pod_of(policy, **members)
    return refused.value


def expand(text, variables):
    """The expansion of Kubernetes (third_party/forked/golang/expansion), written again."""
    result, at = "", 0
    while at < len(text):
        following = text[at + 1 : at + 2]
        if text[at] != "$" or not following:
            result, at = result + text[at], at + 1
        elif following == "(" and (end := text.find(")", at)) > 0:
            name = text[at + 2 : end]
            result, at = result + variables.get(name, f"$({name})"), end + 1
        else:
            result, at = result + ("$" if following == "$" else f"${following}"), at + 2
    return result


@given(st.text(alphabet="$()AB ", max_size=12))
@settings(max_examples=examples(300))
def test_an_escaped_text_is_expanded_to_itself(text):
    assert expand(escape_expansion(text), {"A": "one", "AB": "two"}) == text


def test_commands_and_variables_are_not_expanded_by_kubernetes():
    container = container_of(entrypoint=("sh", "$(A)"), command=("echo $$ $(A)",), environment=(("B", "$(A)"),))

    assert container["command"] == ["sh", "$$(A)"]
    assert container["args"] == ["echo $$$$ $$(A)"]
    assert container["env"] == [{"name": "B", "value": "$$(A)"}]


def test_a_pod_runs_only_where_batchq_binds_it_and_stays_until_its_log_is_archived():
    pod = pod_of()

    assert pod["metadata"]["finalizers"] == [FINALIZER]
    spec = pod["spec"]
    assert spec["schedulerName"] == "batchq"
    assert "nodeName" not in spec
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Never", 1)
    assert (spec["enableServiceLinks"], spec["automountServiceAccountToken"]) == (False, False)
    assert all("tolerationSeconds" not in toleration for toleration in spec["tolerations"])
    assert {toleration["key"] for toleration in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }


def test_the_name_of_a_pod_has_only_characters_that_kubernetes_allows():
    name = pod_name("i1", TAG)

    assert name == "bq-i1-8f2c51a7-0000-4000-8000-000000000000.7-2"
    assert pod_of()["metadata"]["name"] == name


def test_the_tag_is_read_from_the_annotations_of_a_pod_of_this_instance():
    pod = pod_of()

    assert tags_of_pod(pod, "i1") == {"main": TAG}
    assert tags_of_pod(pod, "i2") == {}
    assert tags_of_pod({"metadata": {"labels": {"io.batchq.instance": "i1"}}}, "i1") == {}


def test_resources():
    gpus = container_of(resources=Resources(millicpus=1500, memory_mib=64, gpus=2))["resources"]
    least = container_of(resources=Resources(millicpus=10, memory_mib=4))["resources"]

    assert gpus == {"requests": {"cpu": "1500m", "memory": "64Mi"}, "limits": {"memory": "64Mi", "nvidia.com/gpu": "2"}}
    assert least["limits"] == {"memory": "6Mi"}


def test_variables_of_batchq_take_precedence_over_secrets_and_these_over_those_of_the_job():
    spec = launch(
        environment=(("C", "batchq"),),
        secrets=(Secret(name="B", value_from="b"), Secret(name="C", value_from="c")),
    )
    spec = replace(spec, spec=replace(spec.spec, environment=(("A", "job"), ("B", "job"), ("C", "job"))))

    container = build_pod(spec, instance="i1", policy=POLICY, namespace="jobs")["spec"]["containers"][0]

    name = pod_name("i1", TAG)
    assert container["env"] == [
        {"name": "A", "value": "job"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": name, "key": "main-env-0"}}},
        {"name": "C", "value": "batchq"},
    ]


def test_secret_values_and_files_are_in_a_secret_that_the_pod_owns():
    container = launch(secrets=(Secret(name="B", value_from="b"),), files=(TextFile(path="/etc/x.json", content="{}"),))

    secret = build_secret(container, instance="i1", uid="u1", values=(("B", "value"),))

    assert secret["stringData"] == {"main-env-0": "value", "main-file-0": "{}"}
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "u1"
    pod = build_pod(container, instance="i1", policy=POLICY, namespace="jobs")
    assert "value" not in json.dumps(pod).replace("valueFrom", "")
    assert pod["spec"]["containers"][0]["volumeMounts"] == [
        {"name": "v0", "mountPath": "/etc/x.json", "subPath": "main-file-0", "readOnly": True}
    ]
    assert build_secret(launch(), instance="i1", uid="u1", values=()) is None


def test_volumes():
    pod = pod_of(
        mounts=(
            Mount(container_path="/in", host_path="/data/in", read_only=True),
            Mount(container_path="/scratch", host_path=None),
        ),
        tmpfs=(Tmpfs(container_path="/fast", size_mib=16),),
        shared_memory_mib=32,
    )

    assert [volume | {"name": ""} for volume in pod["spec"]["volumes"]] == [
        {"name": "", "hostPath": {"path": "/data/in", "type": ""}},
        {"name": "", "emptyDir": {}},
        {"name": "", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        {"name": "", "emptyDir": {"medium": "Memory", "sizeLimit": "32Mi"}},
    ]
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == ["/in", "/scratch", "/fast", "/dev/shm"]
    assert mounts[0]["readOnly"] is True


def test_a_missing_host_path_is_refused_if_the_server_is_configured_so():
    policy = replace(POLICY, missing_host_paths=MissingHostPaths.REFUSE)

    pod = pod_of(policy, mounts=(Mount(container_path="/in", host_path="/data/in"),))

    assert pod["spec"]["volumes"][0]["hostPath"]["type"] == "Directory"


def test_the_security_context():
    plain = container_of(user="1000:1001", read_only_root=True)["securityContext"]
    privileged = container_of(privileged=True)["securityContext"]
    dropped = container_of(replace(POLICY, privileged=Privileged.DROP), privileged=True)["securityContext"]

    assert plain == {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsUser": 1000,
        "runAsGroup": 1001,
    }
    assert (privileged["privileged"], privileged["allowPrivilegeEscalation"]) == (True, True)
    assert (dropped["privileged"], dropped["allowPrivilegeEscalation"]) == (False, False)


def test_an_init_process_is_the_pause_container():
    assert pod_of(init=True)["spec"]["shareProcessNamespace"] is True
    assert "shareProcessNamespace" not in pod_of()["spec"]


def test_networks_and_platforms():
    host = pod_of(network=Network.HOST)["spec"]

    assert (host["hostNetwork"], host["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert "hostNetwork" not in pod_of(network=Network.BRIDGE)["spec"]
    assert pod_of(platform="linux/arm64")["spec"]["nodeSelector"] == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
    }


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"ulimits": (Ulimit(name="nofile", soft=1, hard=2),)}, "ulimits"),
        ({"devices": (Device(host_path="/dev/fuse", container_path=""),)}, "linuxParameters.devices"),
        ({"max_swap_mib": 0}, "linuxParameters.maxSwap"),
        ({"swappiness": 10}, "linuxParameters.swappiness"),
        ({"tmpfs": (Tmpfs(container_path="/x", size_mib=1, options=("noexec",)),)}, "option 'noexec' of a tmpfs"),
        ({"user": "bob"}, "the user name 'bob' in place of numbers"),
        ({"logging": Logging(driver="syslog")}, "log driver 'syslog'"),
        ({"network": Network.NONE}, "a container without a network"),
        ({"checkpoint_directory": "/c"}, "a checkpoint directory without `serve --kubernetes-checkpoints`"),
    ],
)
def test_what_kubernetes_does_not_have_is_refused(members, what):
    refused = refusal_of(**members)

    assert refused.reason == f"CannotCreateContainerError: {what} is not available on Kubernetes"
    assert (refused.certain, refused.forbidden) == (True, False)


NO_ROOT = ContainerPolicy(volumes=("/data",))


@pytest.mark.parametrize(
    ("members", "changes"),
    [
        ({"privileged": True}, {"privileged": Privileged.REFUSE}),
        ({"mounts": (Mount(container_path="/x", host_path="/etc"),)}, {}),
        ({"mounts": (Mount(container_path="/x", host_path="/data/../etc"),)}, {}),
        ({"mounts": (Mount(container_path="/x", host_path="/data/batchq/logs"),)}, {}),
        ({"mounts": (Mount(container_path="/x", host_path="/data"),)}, {}),
        ({"mounts": (Mount(container_path="/x", host_path="/data/in"),), "user": "7", "allowances": (NO_ROOT,)}, {}),
        ({"network": Network.HOST, "allowances": (ContainerPolicy(),)}, {}),
        ({"allowances": (NO_ROOT,)}, {}),
        ({"user": "0", "allowances": (NO_ROOT,)}, {}),
        ({"user": "1:0", "allowances": (NO_ROOT,)}, {}),
        ({}, {"registries": ("registry.example",)}),
    ],
)
def test_what_the_server_or_the_account_does_not_permit_is_forbidden(members, changes):
    assert refusal_of(replace(POLICY, **changes), **members).forbidden


def test_containers_of_restricted_accounts_lose_capabilities():
    root = container_of(allowances=(ContainerPolicy(),))["securityContext"]
    others = container_of(allowances=(NO_ROOT,), user="1000")["securityContext"]

    assert root["capabilities"] == {"drop": ["MKNOD", "NET_RAW", "SETFCAP"]}
    assert others["capabilities"] == {"drop": ["ALL"]}
    assert (others["runAsUser"], others["runAsGroup"]) == (1000, 1000)


def test_a_pod_has_all_containers_of_its_node_in_one_order_whichever_is_created_first():
    one, two = (ContainerSpec(image=image, resources=Resources(millicpus=1, memory_mib=64)) for image in ("a", "b"))
    names = {"web": one, "App_1": two}
    pods = [
        build_pod(
            LaunchSpec(
                tag=replace(TAG, container_key=f"3/{name}"),
                spec=names[name],
                environment=(),
                beside=(TaskContainer(name=other, spec=names[other]),),
                share_pids=True,
            ),
            instance="i1",
            policy=POLICY,
            namespace="jobs",
        )
        for name, other in (("web", "App_1"), ("App_1", "web"))
    ]

    assert pods[0]["spec"] == pods[1]["spec"]
    spec = pods[0]["spec"]
    assert [container["name"] for container in spec["containers"]] == [
        name_in_pod(tag) for tag in _tags("App_1", "web")
    ]
    assert {container["image"] for container in spec["containers"]} == {HELD_IMAGE}
    assert (spec["shareProcessNamespace"], spec["hostname"]) == (True, "node-3")
    # `App_1` is not a name of a host.
    assert spec["hostAliases"] == [{"ip": "127.0.0.1", "hostnames": ["web"]}]
    assert {tag.container for tag in tags_of_pod(pods[0], "i1").values()} == {"web"}
    assert {tag.container for tag in tags_of_pod(pods[1], "i1").values()} == {"App_1"}


def _tags(*names):
    return [replace(TAG, container_key=f"3/{name}") for name in names]


def test_containers_share_the_volumes_with_a_name():
    shared, own = Mount(container_path="/s", host_path=None, volume="work"), Mount(container_path="/o", host_path=None)
    container = launch(tag=replace(TAG, container_key="0/a"), mounts=(shared, own))
    container = replace(container, beside=(TaskContainer(name="b", spec=container.spec),))

    spec = build_pod(container, instance="i1", policy=POLICY, namespace="jobs")["spec"]

    first, second = ([mount["name"] for mount in container["volumeMounts"]] for container in spec["containers"])
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert len(spec["volumes"]) == 3


def test_a_container_beside_is_checked_as_well():
    container = launch(tag=replace(TAG, container_key="0/a"), network=Network.NONE)
    beside = replace(container.spec, swappiness=1)

    with pytest.raises(StartRefused, match="swappiness is not available on Kubernetes"):
        build_pod(
            replace(container, beside=(TaskContainer(name="b", spec=beside),)),
            instance="i1",
            policy=POLICY,
            namespace="jobs",
        )
    # The containers of such an attempt are on the cluster's network, whatever their environment says.
    assert "hostNetwork" not in build_pod(container, instance="i1", policy=POLICY, namespace="jobs")["spec"]


@pytest.mark.parametrize(
    ("volume", "source", "mount"),
    [
        ("claim", {"persistentVolumeClaim": {"claimName": "claim"}}, {"subPath": "j:1"}),
        ("claim/a/b", {"persistentVolumeClaim": {"claimName": "claim"}}, {"subPath": "a/b/j:1"}),
        ("/mnt/shared", {"hostPath": {"path": "/mnt/shared/j:1", "type": "Directory"}}, {}),
    ],
)
def test_the_checkpoint_directory_of_the_job_is_a_folder_of_the_volume(volume, source, mount):
    """A folder that the server has not created is not created by a node: its checkpoints would not be found."""
    container = launch(tag=replace(TAG, container_key="0/a"), checkpoint_directory="/var/lib/batchq-checkpoints/j:1")
    container = replace(container, beside=(TaskContainer(name="b", spec=container.spec),))

    spec = build_pod(container, instance="i1", policy=replace(POLICY, checkpoints=volume), namespace="jobs")["spec"]

    assert spec["volumes"] == [{"name": "v0", **source}]
    expected = {"name": "v0", "mountPath": "/opt/ml/checkpoints", **mount}
    assert [container["volumeMounts"] for container in spec["containers"]] == [[expected], [expected]]


@pytest.mark.parametrize("volume", ["Claim", "claim/", "claim/../x", "/", "//x", "claim//x", ""])
def test_a_volume_of_checkpoints_that_is_neither_a_claim_nor_a_path_is_refused(volume):
    with pytest.raises(ValueError, match="kubernetes_checkpoints"):
        Settings(kubernetes="file", kubernetes_checkpoints=volume)

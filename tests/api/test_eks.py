"""eksProperties: a job definition of one container, written as a pod; its jobs, and their descriptions."""

import pytest
from botocore.validate import ParamValidator
from msgspec.structs import force_setattr, replace

from batchq.domain import events as on
from batchq.domain.container import Mount, Resources, Tmpfs
from tests.api.model import SERVICE

RESOURCES = {"cpu": "1.5", "memory": "512Mi"}
PLAIN = {"image": "batchq-test:latest", "args": ["echo", "Ref::word"], "resources": {"limits": RESOURCES}}


def pod(container=(), **members):
    """A request with a pod of one container."""
    properties = {"containers": [PLAIN | dict(container)]} | members
    return {"jobDefinitionName": "pod", "type": "container", "eksProperties": {"podProperties": properties}}


def security(**members):
    return pod({"securityContext": members})


def volumes(*sources, **mount):
    """A pod whose container mounts volumes with these sources at /0, /1 and so on."""
    named = [{"name": f"v{number}", **source} for number, source in enumerate(sources)]
    points = [{"name": item["name"], "mountPath": f"/{number}", **mount} for number, item in enumerate(named)]
    return pod({"volumeMounts": points}, volumes=named)


async def test_a_pod_is_another_spelling_of_container_properties(registered):
    requirements = [{"type": "VCPU", "value": "1.5"}, {"type": "MEMORY", "value": "512"}, {"type": "GPU", "value": "2"}]
    container = {
        "image": "batchq-test:latest",
        "command": ["echo", "Ref::word"],
        "environment": [{"name": "A", "value": "1"}],
        "resourceRequirements": requirements,
        "volumes": [{"name": "data", "host": {"sourcePath": "/data"}}, {"name": "own"}],
        "mountPoints": [
            {"sourceVolume": "data", "containerPath": "/in", "readOnly": True},
            {"sourceVolume": "own", "containerPath": "/own"},
        ],
        "user": "1000",
        "privileged": True,
        "readonlyRootFilesystem": True,
        "linuxParameters": {"initProcessEnabled": True, "tmpfs": [{"containerPath": "/fast", "size": 1024}]},
    }
    named = [
        {"name": "data", "hostPath": {"path": "/data"}},
        {"name": "own", "emptyDir": {}},
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ]
    written = pod(
        {
            "env": [{"name": "A", "value": "1"}],
            "resources": {"limits": RESOURCES | {"nvidia.com/gpu": "2"}},
            "volumeMounts": [
                {"name": "data", "mountPath": "/in", "readOnly": True},
                {"name": "own", "mountPath": "/own"},
                {"name": "fast", "mountPath": "/fast"},
            ],
            "securityContext": {"runAsUser": 1000, "privileged": True, "readOnlyRootFilesystem": True},
        },
        volumes=named,
        shareProcessNamespace=True,
    )
    plain = {"jobDefinitionName": "plain", "type": "container", "containerProperties": container}

    assert (await registered(written)).nodes == (await registered(plain)).nodes


@pytest.mark.parametrize(
    ("content", "member", "value"),
    [
        (pod({"command": ["/bin/run"]}), "entrypoint", ("/bin/run",)),
        (pod({"args": None}), "command", ()),
        (
            pod({"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}),
            "resources",
            Resources(millicpus=250, memory_mib=1024),
        ),
        (
            pod({"resources": {"requests": RESOURCES, "limits": RESOURCES | {"cpu": "2"}}}),
            "resources",
            Resources(millicpus=1500, memory_mib=512),
        ),
        (security(runAsUser=7, runAsGroup=8), "user", "7:8"),
        (pod(securityContext={"runAsUser": 7, "runAsNonRoot": True}), "user", "7"),
        (pod({"securityContext": {"runAsUser": 9}}, securityContext={"runAsUser": 7, "runAsGroup": 8}), "user", "9:8"),
        (volumes({"emptyDir": {"sizeLimit": "1Gi"}}), "mounts", (Mount(container_path="/0", host_path=None),)),
        (
            volumes({"emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}}),
            "tmpfs",
            (Tmpfs(container_path="/0", size_mib=8),),
        ),
        (pod(hostNetwork=False, dnsPolicy="Default", serviceAccountName="me", metadata={"labels": {}}), "user", None),
    ],
)
async def test_a_member_of_a_pod_is_translated(registered, content, member, value):
    assert getattr((await registered(content)).nodes.leading.spec, member) == value


REFUSED = [
    (pod(containers=[]), "exactly 1 container"),
    (pod(containers=[PLAIN, PLAIN]), "exactly 1 container"),
    (pod(initContainers=[PLAIN]), "exactly 1 container"),
    (pod({"name": "A B"}), "lower case letters"),
    (pod({"image": ""}), "image must be"),
    (pod({"resources": {}}), "vCPU is not provided"),
    (pod({"resources": {"limits": {"cpu": "1"}}}), "Memory is not provided"),
    *(
        (pod({"resources": {"limits": RESOURCES | {name: text}}}), "is not a resource of a container")
        for name, text in (
            ("cpu", "0"),
            ("cpu", "1.2345"),
            ("cpu", "-1"),
            ("cpu", "1e3"),
            ("memory", "1G"),
            ("memory", "1.5Gi"),
            ("nvidia.com/gpu", "x"),
            ("amd.com/gpu", "1"),
        )
    ),
    (pod({"resources": {"limits": RESOURCES, "requests": RESOURCES | {"memory": "256Mi"}}}), "must be equal"),
    (pod({"resources": {"limits": RESOURCES, "requests": RESOURCES | {"cpu": "2"}}}), "must be equal"),
    (pod({"resources": {"limits": RESOURCES | {"memory": "1Mi"}}}), "at least 4 MiB"),
    (pod({"env": [{"name": "io.batchq.x"}]}), "environment variable"),
    (volumes({"emptyDir": {}}, subPath="x"), "subPath is not supported"),
    (volumes({"secret": {"secretName": "x"}}), "secret is not supported"),
    (volumes({"persistentVolumeClaim": {"claimName": "x"}}), "persistentVolumeClaim is not supported"),
    (volumes({}), "exactly one of hostPath and emptyDir"),
    (volumes({"hostPath": {"path": "x"}}), "absolute path"),
    (volumes({"emptyDir": {"medium": "Disk"}}), "empty or Memory"),
    (volumes({"emptyDir": {"medium": "Memory"}}), "is not a resource"),
    (volumes({"emptyDir": {}}, name="other"), "not one of the pod's volumes"),
    (security(runAsUser=-1), "runAsUser"),
    (security(runAsGroup=1), "runAsGroup needs"),
    (security(runAsNonRoot=True), "runAsNonRoot needs"),
    (security(runAsNonRoot=True, runAsUser=0), "runAsNonRoot needs"),
    (security(capabilities={"add": ["NET_ADMIN"]}), "capabilities is not supported"),
    (security(seccompProfile={"type": "Unconfined"}), "seccompProfile is not supported"),
    (pod(securityContext={"fsGroup": 0}), "fsGroup is not supported"),
    (pod() | {"platformCapabilities": ["FARGATE"]}, "FARGATE is not applicable"),
    (pod() | {"containerProperties": {"image": "x"}}, "cannot be used with"),
    (pod() | {"type": "multinode"}, "in nodeProperties only"),
]


async def test_what_a_pod_cannot_have_is_refused_and_nothing_is_stored(refuses):
    await refuses("RegisterJobDefinition", REFUSED)


async def test_a_definition_is_described_as_it_was_registered(http, registered):
    request = pod({"name": "main", "imagePullPolicy": "Always"}, metadata={"labels": {"team": "red"}})
    await registered(request)

    _, _, answer = await http.post("DescribeJobDefinitions", {"jobDefinitionName": "pod"})

    (found,) = answer["jobDefinitions"]
    assert found["eksProperties"] == request["eksProperties"]
    assert (found["containerOrchestrationType"], "containerProperties" in found) == ("EKS", False)
    assert_is(found["eksProperties"], "EksProperties")


def assert_is(content, shape):
    """Check the content by botocore's model of a shape."""
    report = ParamValidator().validate(content, SERVICE.shape_for(shape))
    assert not report.has_errors(), report.generate_report()


def override(**members):
    return {"eksPropertiesOverride": {"podProperties": {"containers": [members]}}}


@pytest.fixture
async def described(http, accepted, registered, default_queue):
    """Submit a job of a pod, and return its id and a function that describes it."""
    await registered(pod({"name": "main", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}))

    async def described(**members):
        request = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "pod"} | members
        job_id = (await accepted("SubmitJob", request))["jobId"]

        async def describe():
            _, _, answer = await http.post("DescribeJobs", {"jobs": [job_id]})
            (job,) = answer["jobs"]
            assert_is(job["eksProperties"], "EksPropertiesDetail")
            assert_is(job["eksAttempts"], "EksAttemptDetails")
            return job

        return job_id, describe

    return described


async def test_a_job_has_its_pod_with_what_it_overrides(described):
    changes = {"args": ["ls"], "env": [{"name": "B", "value": "3"}], "resources": {"limits": {"cpu": "2"}}}

    _, describe = await described(**override(name="main", **changes))

    job = await describe()
    (container,) = job["eksProperties"]["podProperties"]["containers"]
    amounts = {"cpu": "2000m", "memory": "512Mi"}
    assert (container["args"], container["name"]) == (["ls"], "main")
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]
    assert container["resources"] == {"limits": amounts, "requests": amounts}
    assert (job["container"]["command"], job["eksAttempts"]) == (["ls"], [])


async def test_a_job_without_overrides_has_the_resources_as_they_were_registered(described):
    _, describe = await described(parameters={"word": "hi"})

    (container,) = (await describe())["eksProperties"]["podProperties"]["containers"]
    assert (container["resources"], container["args"]) == (PLAIN["resources"], ["echo", "hi"])


async def test_container_overrides_change_the_same_container(described):
    _, describe = await described(containerOverrides={"command": ["ls"]})

    (container,) = (await describe())["eksProperties"]["podProperties"]["containers"]
    assert container["args"] == ["ls"]


async def test_an_ended_attempt_has_its_exit_code_node_and_times(server, described):
    job_id, describe = await described()
    await server.engine.happens(job_id, on.DependenciesMet(), on.Placed(environment="local", machines=("n1",)))
    await server.engine.happens(job_id, on.ContainerCreated(attempt=1, container_id="uid", pod="bq-1"))
    running = (await describe())["eksProperties"]["podProperties"]
    assert (running["nodeName"], running["podName"]) == ("n1", "bq-1")

    await server.ends(job_id, exit_code=3)

    job = await describe()
    (attempt,) = job["eksAttempts"]
    (container,) = job["eksProperties"]["podProperties"]["containers"]
    assert attempt["containers"] == [{"name": "main", "exitCode": 3}]
    assert (attempt["nodeName"], attempt["podName"], container["exitCode"]) == ("n1", "bq-1", 3)
    assert attempt["stoppedAt"] >= attempt["startedAt"]
    assert attempt["statusReason"] == job["attempts"][0]["statusReason"]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (override(image="other"), "image is not supported"),
        (override(command=["x"]), "command is not supported"),
        (override(args=[""]), "must not have empty elements"),
        (override(resources={"limits": {"memory": "1Mi"}}), "at least 4 MiB"),
        ({"eksPropertiesOverride": {"podProperties": {"containers": [{}, {}]}}}, "exactly 1 container"),
        ({"eksPropertiesOverride": {"podProperties": {"initContainers": [{}]}}}, "exactly 1 container"),
        (override(args=["x"]) | {"containerOverrides": {"command": ["y"]}}, "Only one of"),
    ],
)
async def test_overrides_that_a_pod_cannot_have_are_refused(server, http, described, members, text):
    request = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "pod"}

    status, _, answer = await http.post("SubmitJob", request | members)

    assert (status, text in answer["message"]) == (400, True), answer


CLUSTER = {"eksClusterArn": "arn:aws:eks:us-east-1:123456789012:cluster/far", "kubernetesNamespace": "jobs"}


@pytest.fixture
def environment(server, http):
    """Create the environment `far` with an eksConfiguration, on a server whose jobs are in the namespace `jobs`."""
    force_setattr(server.parts, "limits", replace(server.parts.limits, kubernetes_namespace="jobs"))

    async def create(configuration, **members):
        body = {"computeEnvironmentName": "far", "type": "UNMANAGED", "eksConfiguration": configuration} | members
        status, _, answer = await http.post("CreateComputeEnvironment", body)
        return status, answer.get("message")

    return create


async def test_an_environment_with_a_cluster_selects_kubernetes_and_shows_the_cluster(environment, http):
    assert await environment(CLUSTER, tags={"team": "red"}) == (200, None)

    _, _, answer = await http.post("DescribeComputeEnvironments", {"computeEnvironments": ["far"]})

    (found,) = answer["computeEnvironments"]
    assert_is(found["eksConfiguration"], "EksConfiguration")
    assert found["eksConfiguration"] == CLUSTER
    assert found["tags"] == {"team": "red", "batchq:engine": "kubernetes"}
    assert (found["containerOrchestrationType"], "ecsClusterArn" in found) == ("EKS", False)


@pytest.mark.parametrize(
    ("configuration", "tags", "text"),
    [
        (CLUSTER | {"eksClusterArn": "far"}, {}, "eksClusterArn must be the ARN of an EKS cluster"),
        (CLUSTER | {"kubernetesNamespace": "other"}, {}, "kubernetesNamespace must be jobs"),
        (CLUSTER | {"accessEntry": {"desiredState": "ENABLED"}}, {}, "accessEntry is not supported"),
        (CLUSTER, {"batchq:engine": "docker"}, "must not have the tag batchq:engine of another engine"),
    ],
)
async def test_a_cluster_that_the_server_does_not_have_is_refused(environment, server, configuration, tags, text):
    before = server.stored_rows()

    status, message = await environment(configuration, tags=tags)

    assert (status, text in message) == (400, True), message
    assert server.stored_rows() == before

"""The variables and the network addresses that a container gets. aws-batch.md 12."""

from batchq.domain.ids import Tag
from batchq.domain.job import ArrayChild
from batchq.engine.containers.translation import launch_spec
from tests.domain.lives import after, container_created, starting
from tests.domain.part_lives import app, is_created, multi_node_job, runs, sidecar, task_job
from tests.support.builders import gang, task


def tag(job, key=""):
    return Tag(job_id=job.id, attempt=1, container_key=key)


def result(job, key=""):
    """The variables AWS_BATCH_*, without this prefix."""
    variables = dict(launch_spec(job, tag(job, key)).environment)
    return {
        name.removeprefix("AWS_BATCH_"): value for name, value in variables.items() if name.startswith("AWS_BATCH_")
    }


def test_the_container_gets_its_attempt_queue_and_environment():
    job = starting()

    assert result(job) == {"JOB_ID": job.id, "JOB_ATTEMPT": "1", "JQ_NAME": "default", "CE_NAME": "local"}
    assert launch_spec(job, tag(job)).spec == job.spec.container
    assert ("AWS_EXECUTION_ENV", "AWS_ECS_EC2") in launch_spec(job, tag(job)).environment


def test_a_child_gets_its_index_and_the_size_of_its_array():
    child = starting(array_size=3, child=ArrayChild(parent="parent", index=2))

    variables = result(child)

    assert (variables["JOB_ARRAY_INDEX"], variables["JOB_ARRAY_SIZE"], variables["JOB_ID"]) == ("2", "3", child.id)


def test_a_container_of_a_task_gets_the_variables_of_a_single_container():
    job = task_job(app(image="this"), sidecar(image="that"))

    assert result(job, "0/sidecar") == result(job, "0/app") == {**result(starting()), "JOB_ID": job.id}
    assert launch_spec(job, tag(job, "0/sidecar")).spec.image == "that"


def test_a_created_container_is_launched_by_its_id():
    one, several = (
        after(starting(), container_created(container_id="this")),
        after(task_job(app(), sidecar()), is_created("0/app")),
    )

    assert launch_spec(starting(), tag(starting())).container_id is None
    assert launch_spec(one, tag(one)).container_id == "this"
    assert [launch_spec(several, tag(several, key)).container_id for key in ("0/app", "0/sidecar")] == ["an-id", None]


def test_each_container_of_a_task_knows_the_others():
    job = starting(task=task(app(), sidecar(), share_ipc=True))

    made = launch_spec(job, tag(job, "0/sidecar"))

    assert (made.tag, made.beside) == (tag(job, "0/sidecar"), ("app",))
    assert (made.share_ipc, made.share_pids) == (True, False)


def test_each_node_gets_its_index_and_the_number_of_nodes():
    job = multi_node_job(gang(3, main=1))

    variables = result(job, "1/app")

    assert variables["JOB_ID"] == f"{job.id}#1"
    assert (variables["JOB_NODE_INDEX"], variables["JOB_MAIN_NODE_INDEX"], variables["JOB_NUM_NODES"]) == (
        "1",
        "1",
        "3",
    )


def test_the_other_nodes_get_the_address_of_the_main_node():
    job = after(multi_node_job(gang(3, main=1)), runs("1/app", address="10.0.0.7"))

    assert result(job, "0/app")["JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS"] == "10.0.0.7"
    assert "JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS" not in result(job, "1/app")


def test_without_addresses_no_address_is_set():
    job = after(multi_node_job(), runs("0/app"))

    assert "JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS" not in result(job, "1/app")

"""Pitfalls of real engines, which have no effect here. Numbers are those of faults.md 2.1 and 6."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from batchq.compute.docker.create_request import container_labels, container_name
from batchq.compute.docker.policy import ServerPolicy
from batchq.compute.secrets import Secrets
from batchq.domain.container import Device, Logging, Mount, Secret, Tmpfs, Ulimit
from batchq.errors import ContainerGone, NameTaken, StartRefused
from batchq.ports.runtime import ContainerState
from batchq.settings import Privileged
from tests.support.containers import (
    death_of,
    docker_runtime,
    ended,
    instance_of,
    launch,
    new_tag,
    output,
    output_of,
    over,
    started,
    tag_of,
    until_answered,
    wait_for_line,
)
from tests.support.scripts import IMAGE, Script

pytestmark = pytest.mark.docker

LONG = Script(seconds=None, on_term=7, output=("ready",))
QUICK = Script(seconds=0, output=("one",))


def named(runtime, tag):
    return container_name(instance_of(runtime), tag)


def shell(*lines):
    return ("sh", "-c", "; ".join(lines))


# D2, D4, D5: one attempt, one container, one start


async def test_after_a_restart_an_exited_container_is_not_started_again(runtime, docker_engine):
    container = launch(QUICK)
    await runtime.create(container)
    await runtime.start(container.tag)
    before = await over(runtime, container.tag)

    async with docker_runtime(docker_engine, instance=instance_of(runtime)) as again:
        assert (await again.create(container)).state is ContainerState.EXITED
        await again.start(container.tag)
        assert await again.inspect(container.tag) == before
        assert await output(again, container.tag) == ["one"]


async def test_after_a_restart_a_created_container_is_started(runtime, docker_engine):
    container = launch(QUICK)
    await runtime.create(container)

    async with docker_runtime(docker_engine, instance=instance_of(runtime)) as again:
        assert (await again.create(container)).state is ContainerState.CREATED
        await again.start(container.tag)
        assert (await over(again, container.tag)).exit_code == 0


async def test_concurrent_creates_make_one_container(runtime, docker_engine):
    container = launch()
    async with docker_runtime(docker_engine, instance=instance_of(runtime)) as other:
        # During a create the name is in use and the container does not exist yet: the call is repeated.
        made = await asyncio.gather(*(until_answered(partial(each.create, container)) for each in [runtime, other] * 4))

        assert {container.state for container in made} == {ContainerState.CREATED}
        assert len({container.container_id for container in made}) == 1
        assert [found.tag for found in await runtime.survey()] == [container.tag]


# D3: a stop that races with a start


async def test_a_stop_during_a_start_is_delivered_or_reported_as_not_delivered(runtime):
    launches = [launch(LONG, init=True) for _ in range(12)]
    for other_launch in launches:
        await runtime.create(other_launch)

    answers = [
        await asyncio.gather(
            runtime.start(other_launch.tag), runtime.signal_stop(other_launch.tag), return_exceptions=True
        )
        for other_launch in launches
    ]

    for container, (start, stop) in zip(launches, answers, strict=True):
        assert start is None
        assert stop is None or isinstance(stop, ContainerGone)
        assert (await runtime.inspect(container.tag)).started_at is not None


# D7: starts that fail


@pytest.mark.parametrize(
    ("spec", "code", "certain", "words"),
    [
        ({"command": ("/no/such/program",)}, 127, True, "no such file"),
        ({"command": ("no-such-program",)}, 127, True, "not found"),
        ({"command": ("/etc/passwd",)}, 126, True, "permission denied"),
        ({"command": ("/etc",)}, 126, True, "permission denied"),
        ({"user": "no-such-user"}, 128, False, "no-such-user"),
        ({"ulimits": (Ulimit(name="nofile", soft=2, hard=1),)}, 128, False, "rlimit"),
        ({"devices": (Device(host_path="/dev/none", container_path="/dev/it"),)}, 128, False, "/dev/none"),
    ],
    ids=["absolute", "relative", "file", "folder", "user", "ulimit", "device"],
)
@pytest.mark.fault("EN20", "EN21")
async def test_a_failed_start_has_its_exit_code_and_the_engines_text(docker_engine, spec, code, certain, words):
    async with docker_runtime(docker_engine, policy=ServerPolicy(privileged=Privileged.ALLOW, volumes=())) as runtime:
        container = launch(**spec)
        await runtime.create(container)

        with pytest.raises(StartRefused, match=r"^CannotStartContainerError: ") as refused:
            await runtime.start(container.tag)

    assert refused.value.exit_code == code
    assert refused.value.certain is certain
    assert words in refused.value.reason


@pytest.mark.fault("EN20")
async def test_a_reason_is_not_longer_than_awss_maximum(runtime):
    container = launch(command=("/" + "x" * 4000,))
    await runtime.create(container)

    with pytest.raises(StartRefused) as refused:
        await runtime.start(container.tag)

    assert len(refused.value.reason) <= 1024


async def test_a_temporarily_failed_start_can_be_repeated(runtime):
    container = launch(user="no-such-user")
    await runtime.create(container)
    with pytest.raises(StartRefused):
        await runtime.start(container.tag)

    with pytest.raises(StartRefused, match="no-such-user"):
        await runtime.start(container.tag)


async def test_a_refused_create_is_reported(runtime):
    with pytest.raises(StartRefused, match=r"^CannotCreateContainerError: ") as refused:
        await runtime.create(launch(mounts=(Mount(container_path="relative", host_path=None),)))

    assert refused.value.certain


# Permissions of the server: the OCI runtime, and the engine's socket


async def test_a_container_has_the_runtime_of_the_server(docker_engine, engine):
    name = Path(engine.info()["DefaultRuntime"]).name  # Podman may report a path
    policy = ServerPolicy(privileged=Privileged.REFUSE, volumes=(), oci_runtime=name)

    async with docker_runtime(docker_engine, policy=policy) as runtime:
        assert (await ended(runtime, QUICK)).exit_code == 0
        with pytest.raises(StartRefused, match=rf"no OCI runtime 'nosuch'; it has: .*{name}"):
            await runtime.create(replace(launch(), oci_runtime="nosuch"))


async def test_the_engines_socket_is_mounted_where_the_server_permits_it(docker_engine):
    mount = Mount(container_path="/var/run/docker.sock", host_path="/var/run/docker.sock")
    container = launch(mounts=(mount,), command=shell("test -S /var/run/docker.sock && echo socket"))
    policy = ServerPolicy(privileged=Privileged.REFUSE, volumes=(), engine_socket=True)

    async with docker_runtime(docker_engine, policy=policy) as runtime:
        assert await output_of(runtime, container) == ["socket"]
    async with docker_runtime(docker_engine) as runtime:
        with pytest.raises(StartRefused, match="which no job may mount on this server"):
            await runtime.create(replace(container, tag=new_tag()))


# D9, D10, SP22: signals


async def test_with_an_init_process_a_program_without_a_handler_dies_of_the_stop_signal(runtime):
    tag = await started(runtime, init=True, command=shell("echo ready", "exec sleep 1000"))
    await wait_for_line(runtime, tag, "ready")

    await runtime.signal_stop(tag)

    assert (await over(runtime, tag)).exit_code == 143


@pytest.mark.parametrize(
    ("image", "paused", "code"),
    [
        pytest.param("batchq-test:sigint", False, 9, marks=pytest.mark.fault("SP21")),
        pytest.param("batchq-test:sigint", True, 9, marks=pytest.mark.fault("SP22")),
        pytest.param(IMAGE, True, 15, marks=pytest.mark.fault("SP22")),
    ],
)
async def test_the_stop_signal_of_the_image_reaches_running_and_paused_containers(runtime, engine, image, paused, code):
    traps = shell("trap 'exit 9' INT", "trap 'exit 15' TERM", "echo ready", "sleep 1000 & wait")
    tag = await started(runtime, image=image, command=traps)
    await wait_for_line(runtime, tag, "ready")
    if paused:
        engine.pause(named(runtime, tag))
        assert [found.state for found in await runtime.survey()] == [ContainerState.RUNNING]
    assert (await runtime.inspect(tag)).state is ContainerState.RUNNING

    await runtime.signal_stop(tag)

    assert (await over(runtime, tag)).exit_code == code


@pytest.mark.fault("SP22")
async def test_a_paused_container_can_be_killed(runtime, engine):
    tag = await started(runtime, LONG)
    engine.pause(named(runtime, tag))

    await runtime.kill(tag)

    assert (await over(runtime, tag)).exit_code == 137


# EN12, EN16, EN18: others at the same engine


@pytest.mark.fault("EN12")
async def test_a_container_removed_externally_is_absent(runtime, engine):
    tag = await started(runtime, LONG)
    async with runtime.deaths() as deaths:
        engine.remove_container(named(runtime, tag), force=True)

        await death_of(deaths, tag)

    assert await runtime.inspect(tag) is None
    with pytest.raises(ContainerGone):
        await runtime.kill(tag)
    await runtime.remove(tag)


@pytest.fixture
def foreign(runtime, engine):
    """The launch of a container whose name is in use by a container of another client."""
    container = launch()
    name = named(runtime, container.tag)
    made = engine.create_container(IMAGE, ["sleep", "1000"], name=name, labels={"io.batchq.instance": "another"})
    engine.start(made["Id"])
    yield container
    assert engine.inspect_container(made["Id"])["State"]["Status"] == "running"
    engine.remove_container(made["Id"], force=True)


@pytest.mark.fault("EN16")
async def test_a_name_in_foreign_use_is_reported(runtime, foreign):
    with pytest.raises(NameTaken):
        await runtime.create(foreign)


@pytest.mark.fault("EN16", "EN18")
async def test_a_foreign_container_is_absent_and_never_changed(runtime, foreign):
    assert await runtime.inspect(foreign.tag) is None
    assert await runtime.survey() == ()
    for call in (runtime.start, runtime.signal_stop, runtime.kill, partial(output, runtime)):
        with pytest.raises(ContainerGone):
            await call(foreign.tag)
    await runtime.remove(foreign.tag)


async def test_a_death_in_another_instance_is_not_reported(runtime, docker_engine):
    async with docker_runtime(docker_engine) as other, runtime.deaths() as deaths:
        await ended(other, QUICK)
        tag = await started(runtime, QUICK)

        assert tag_of(await anext(deaths)) == tag


# D20, D28: ends


@pytest.mark.fault("EN27")
async def test_no_container_stops_before_it_starts(runtime):
    ends = [await ended(runtime, command=("true",)) for _ in range(10)]

    assert all(found.started_at <= found.stopped_at for found in ends)


async def test_lack_of_memory_in_a_child_process_is_not_the_containers(runtime):
    hog = shell("dd if=/dev/zero of=/dev/null bs=1G count=1", "exit 0")

    found = await ended(runtime, command=hog)

    assert found.exit_code == 0


# D27, D32: volumes


async def test_anonymous_volumes_are_removed_with_the_container(runtime, engine):
    mounts = (Mount(container_path="/scratch", host_path=None),)
    found = await ended(runtime, mounts=mounts, command=shell("echo x > /scratch/x"))
    volumes = {mount["Name"] for mount in engine.inspect_container(named(runtime, found.tag))["Mounts"]}
    assert len(volumes) == 1

    await runtime.remove(found.tag)

    assert volumes.isdisjoint(volume["Name"] for volume in engine.volumes()["Volumes"] or [])


@pytest.mark.parametrize(("read_only", "code"), [(False, 0), (True, 1)])
async def test_a_missing_host_path_of_a_mount_that_creates_it_is_mounted(docker_engine, tmp_path, read_only, code):
    policy = ServerPolicy(privileged=Privileged.ALLOW, volumes=(tmp_path,))
    folder = tmp_path / "new" / "deep"
    mounts = (Mount(container_path="/out", host_path=str(folder), read_only=read_only, create=True),)
    async with docker_runtime(docker_engine, policy=policy) as runtime:
        found = await ended(runtime, mounts=mounts, command=shell("echo hello > /out/it"))

    assert found.exit_code == code
    assert [path.read_text() for path in folder.iterdir()] == ([] if read_only else ["hello\n"])


@pytest.mark.fault("SE09")
async def test_a_refused_request_creates_no_container(docker_engine, tmp_path):
    policy = ServerPolicy(privileged=Privileged.ALLOW, volumes=(tmp_path,))
    mounts = (Mount(container_path="/host", host_path="/etc"),)
    async with docker_runtime(docker_engine, policy=policy) as runtime:
        with pytest.raises(StartRefused, match="/etc"):
            await runtime.create(launch(mounts=mounts))

        assert await runtime.survey() == ()


# D30, EN31: while others come and go


@pytest.mark.fault("EN31")
async def test_a_survey_never_fails_while_containers_come_and_go(runtime):
    async def come_and_go():
        for _ in range(10):
            container = launch()
            await runtime.create(container)
            await runtime.remove(container.tag)

    async def survey():
        return [await runtime.survey() for _ in range(30)]

    *_, seen = await asyncio.gather(come_and_go(), come_and_go(), come_and_go(), survey())

    assert len(seen) == 30


# D31, EN28: what it wrote


@pytest.mark.fault("EN28")
@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (shell("head -c 40000 /dev/zero | tr '\\0' x", "echo", "echo after"), ["x" * 40000, "after"]),
        (shell("printf '\\377\\376 ok\\r\\n\\nend'"), ["\ufffd\ufffd ok", "", "end"]),
        (shell("echo out", "sleep 0.1", "echo err >&2"), ["out", "err"]),
    ],
    ids=["long line", "binary, and a line without an end", "both outputs"],
)
async def test_all_output_is_read_as_lines(runtime, command, lines):
    found = await ended(runtime, command=command)

    assert await output(runtime, found.tag) == lines


async def test_a_long_log_is_read_in_chunks_and_from_any_position(runtime):
    found = await ended(runtime, command=shell("seq 1 20000"))
    lines = [line async for line in runtime.logs(found.tag, after=0)]
    assert [line.message for line in lines] == [str(number) for number in range(1, 20001)]

    rest = await output(runtime, found.tag, after=lines[-4].at)

    assert rest == ["19998", "19999", "20000"]


async def test_reading_a_log_may_stop_in_the_middle(runtime):
    found = await ended(runtime, command=shell("seq 1 20000"))

    reading = runtime.logs(found.tag, after=0)
    first = await anext(reading)
    await reading.aclose()

    assert first.message == "1"


@pytest.mark.fault("EN28")
async def test_the_output_of_a_terminal_is_read_as_lines(runtime, engine):
    tag = new_tag()
    labels = container_labels(instance_of(runtime), tag)
    engine.create_container(
        IMAGE, ["sh", "-c", "echo one; echo two"], name=named(runtime, tag), labels=labels, tty=True
    )
    await runtime.start(tag)
    await over(runtime, tag)

    assert await output(runtime, tag) == ["one", "two"]


@pytest.mark.fault("EN28")
async def test_a_log_that_the_engine_does_not_store_is_empty(runtime):
    found = await ended(runtime, QUICK, logging=Logging(driver="none"))

    assert await output(runtime, found.tag) == []


@pytest.mark.fault("EN28")
async def test_the_rest_of_a_rotated_log_is_read(runtime, engine):
    tag = new_tag()
    rotated = engine.create_host_config(
        log_config={"Type": "json-file", "Config": {"max-size": "50k", "max-file": "2"}}
    )
    labels = container_labels(instance_of(runtime), tag)
    engine.create_container(IMAGE, ["seq", "1", "5000"], name=named(runtime, tag), labels=labels, host_config=rotated)
    await runtime.start(tag)
    await over(runtime, tag)

    rest = [int(line) for line in await output(runtime, tag)]

    assert rest[0] > 1
    assert rest == list(range(rest[0], 5001))


# aws-batch.md 11.1, seen from inside


async def test_a_container_has_what_was_requested(runtime):
    looks = shell(
        "id -u",
        "ulimit -n",
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null",
        "df -m /scratch /dev/shm | awk 'NR>1 {print $2}'",
        "touch /tmp/x 2>/dev/null || echo read-only",
        "grep NoNewPrivs /proc/self/status | awk '{print $2}'",
        'test "$(cat /proc/1/comm)" = sh || echo init',
    )
    found = await ended(
        runtime,
        command=looks,
        user="1000",
        ulimits=(Ulimit(name="nofile", soft=99, hard=99),),
        tmpfs=(Tmpfs(container_path="/scratch", size_mib=3),),
        shared_memory_mib=5,
        read_only_root=True,
        init=True,
    )

    assert await output(runtime, found.tag) == ["1000", "99", str(64 << 20), "3", "5", "read-only", "1", "init"]


async def test_secrets_reach_the_container(docker_engine):
    secrets = Secrets(file=None, environment={"BATCHQ_SECRET_DB": "s3cret"})
    requested = (Secret(name="PASSWORD", value_from="arn:aws:ssm:us-east-1:123456789012:parameter/DB"),)
    async with docker_runtime(docker_engine, secrets=secrets) as runtime:
        found = await ended(runtime, command=shell('echo "$PASSWORD"'), secrets=requested)

        assert await output(runtime, found.tag) == ["s3cret"]


async def test_secret_options_reach_the_log_driver_and_nothing_else(docker_engine, engine, caplog):
    caplog.set_level("DEBUG")
    secrets = Secrets(file=None, environment={"BATCHQ_SECRET_DB": "s3cret"})
    logging = Logging(
        driver="syslog",
        options=(("syslog-address", "udp://127.0.0.1:1"),),
        secret_options=(Secret(name="tag", value_from="DB"),),
    )
    async with docker_runtime(docker_engine, secrets=secrets) as runtime:
        container = launch(logging=logging)
        await runtime.create(container)
        made = engine.inspect_container(named(runtime, container.tag))

    assert made["HostConfig"]["LogConfig"]["Config"] == {"syslog-address": "udp://127.0.0.1:1", "tag": "s3cret"}
    assert "s3cret" not in str(made["Config"])
    assert "s3cret" not in caplog.text


async def test_a_missing_secret_option_creates_no_container(runtime):
    logging = Logging(driver="syslog", secret_options=(Secret(name="tag", value_from="NONE"),))

    with pytest.raises(StartRefused, match=r"^ResourceInitializationError: .*NONE"):
        await runtime.create(launch(logging=logging))

    assert await runtime.survey() == ()

"""The contract of every runtime, with the same scripts for each."""

from contextlib import aclosing

import pytest
from msgspec.structs import replace

from batchq.domain.catalog import Network
from batchq.domain.container import Mount
from batchq.errors import ContainerGone, ContainerUnusable, ImageMissing, ImageUnavailable, RuntimeUnknown, StartRefused
from batchq.ports.runtime import MAX_FAILURE, ContainerState, DeathReport, Inspection
from batchq.system.clock import SystemClock
from tests.contracts.conftest import (
    LONG,
    NO_FAILURE_FILE,
    NO_IMAGE,
    NO_PULL,
    NO_REGISTRY,
    NO_SHARED_NETWORK,
    QUICK,
    engines_only,
)
from tests.support.containers import (
    death_of,
    ended,
    launch,
    new_tag,
    output,
    over,
    pause_container_ids,
    remove_pause_containers,
    started,
    until,
    wait_for_line,
)
from tests.support.scripts import FAILURE_FILE, Script

IGNORES_SIGTERM = Script(seconds=None, output=("ready",))


async def test_a_created_container_has_not_started(runtime):
    container = launch()

    made = await runtime.create(container)

    assert made.state is ContainerState.CREATED
    assert await runtime.inspect(container.tag) == Inspection(tag=container.tag, state=ContainerState.CREATED)


async def test_a_repeated_create_makes_one_container_that_can_be_started(runtime):
    container = launch(QUICK)
    await runtime.create(container)

    made = await runtime.create(container)
    surveyed = [found.tag for found in await runtime.survey()]
    await runtime.start(container.tag)

    assert made.state is ContainerState.CREATED
    assert surveyed == [container.tag]
    assert (await over(runtime, container.tag)).exit_code == 0


async def test_a_create_of_a_running_container_reports_that_it_runs(runtime):
    container = launch(LONG)
    await runtime.create(container)
    await runtime.start(container.tag)

    assert (await runtime.create(container)).state is ContainerState.RUNNING


async def test_a_create_of_an_exited_container_reports_that_it_exited(runtime):
    container = launch(QUICK)
    await runtime.create(container)
    await runtime.start(container.tag)
    await over(runtime, container.tag)

    assert (await runtime.create(container)).state is ContainerState.EXITED


async def test_a_container_created_before_is_found_by_its_id(runtime):
    container = launch(QUICK)
    made = await runtime.create(container)

    again = await runtime.create(replace(container, container_id=made.container_id))
    await runtime.start(container.tag)

    assert again == made
    assert (await over(runtime, container.tag)).exit_code == 0


async def test_a_container_created_before_and_removed_is_not_created_again(runtime):
    container = launch(QUICK)
    made = await runtime.create(container)
    await runtime.remove(container.tag)

    with pytest.raises(ContainerGone):
        await runtime.create(replace(container, container_id=made.container_id))

    assert await runtime.survey() == ()


async def test_another_container_with_the_same_name_is_not_adopted(runtime):
    container = launch(QUICK)
    made = await runtime.create(container)
    await runtime.remove(container.tag)
    other = await runtime.create(container)

    with pytest.raises(ContainerGone):
        await runtime.create(replace(container, container_id=made.container_id))

    assert other.container_id != made.container_id
    assert (await runtime.inspect(container.tag)).state is ContainerState.CREATED


async def test_each_attempt_has_its_own_container(runtime):
    first = launch(QUICK)
    second = launch(QUICK, tag=new_tag(attempt=2))

    await runtime.create(first)
    await runtime.create(second)

    assert {found.tag for found in await runtime.survey()} == {first.tag, second.tag}


@engines_only(NO_PULL)
async def test_an_absent_image_has_its_own_error(runtime):
    with pytest.raises(ImageMissing):
        await runtime.create(launch(image=NO_IMAGE))


@engines_only(NO_PULL)
async def test_a_failed_pull_has_a_reason(runtime):
    with pytest.raises(ImageUnavailable, match=r"^CannotPullContainerError: .*connection refused"):
        await runtime.pull(NO_REGISTRY, None)


async def test_a_start_does_not_wait_for_the_end(runtime):
    tag = await started(runtime, LONG)

    found = await runtime.inspect(tag)

    assert found.state is ContainerState.RUNNING
    assert found.started_at is not None
    assert (found.stopped_at, found.exit_code) == (None, None)


async def test_a_start_of_a_running_container_changes_nothing(runtime):
    tag = await started(runtime, LONG)
    before = await runtime.inspect(tag)

    await runtime.start(tag)

    assert await runtime.inspect(tag) == before


async def test_an_exited_container_never_runs_again(runtime):
    before = await ended(runtime, QUICK)

    await runtime.start(before.tag)

    assert await runtime.inspect(before.tag) == before
    assert await output(runtime, before.tag) == ["one", "two"]


async def test_a_container_removed_before_its_start_cannot_be_started(runtime):
    container = launch()
    await runtime.create(container)
    await runtime.remove(container.tag)

    with pytest.raises(ContainerGone):
        await runtime.start(container.tag)


async def test_a_missing_command_is_refused_definitely_and_has_not_started(runtime):
    container = launch(Script(refuse="no such file"))
    await runtime.create(container)

    with pytest.raises(StartRefused, match=r"(?i)^CannotStartContainerError: .*no such file") as refused:
        await runtime.start(container.tag)

    assert (refused.value.exit_code, refused.value.certain) == (127, True)
    assert await runtime.inspect(container.tag) == Inspection(tag=container.tag, state=ContainerState.CREATED)


@pytest.mark.parametrize("code", [0, 3, 255])
@pytest.mark.fault("EN26")
async def test_the_exit_code_is_reported(runtime, code):
    found = await ended(runtime, Script(seconds=0, exit_code=code))

    assert found.exit_code == code
    assert found.out_of_memory is False


async def test_a_container_runs_until_it_exits(runtime):
    before = SystemClock().now()

    found = await ended(runtime, Script(seconds=0.3))

    assert found.exit_code == 0
    assert (found.stopped_at - before).total_seconds() >= 0.3  # the start time of an engine may be later
    assert found.started_at <= found.stopped_at


async def test_lack_of_memory_is_reported(runtime):
    script = Script(seconds=0, out_of_memory=True, exit_code=137)
    # Docker loses about one report of 50 under load (decision 0055).
    found = [await ended(runtime, script) for _ in range(4)]

    assert {container.exit_code for container in found} == {137}
    assert sum(container.out_of_memory for container in found) >= 2


def stating_failure(text, exit_code, **changes):
    """The script and the spec of a container that writes the text into its failure file."""
    volume = Mount(container_path="/opt/ml/output", host_path=None)
    members = {"failure_file": FAILURE_FILE, "folders": ("/opt/ml/output",), "mounts": (volume,)}
    return (Script(seconds=0, failure=text, exit_code=exit_code),), members | changes


@engines_only(NO_FAILURE_FILE)
@pytest.mark.parametrize(
    ("text", "exit_code", "expected"),
    [
        ("no such\nfile: \u00e4", 1, "no such\nfile: \u00e4"),
        ("x" * 5000, 1, "x" * MAX_FAILURE),
        (None, 1, None),
        ("unused", 0, None),
    ],
    ids=["a text", "a long text", "no text", "a success"],
)
async def test_the_failure_file_of_a_container_that_failed_is_reported(runtime, text, exit_code, expected):
    scripts, changes = stating_failure(text, exit_code)

    found = await ended(runtime, *scripts, **changes)

    assert (found.exit_code, found.failure) == (exit_code, expected)


@engines_only(NO_FAILURE_FILE)
async def test_a_container_without_a_failure_file_in_its_spec_reports_no_text(runtime):
    scripts, changes = stating_failure("unknown", 1, failure_file=None)

    assert (await ended(runtime, *scripts, **changes)).failure is None


async def test_an_absent_container_is_none(runtime):
    assert await runtime.inspect(new_tag()) is None


async def test_a_stop_signal_is_delivered(runtime):
    tag = await started(runtime, LONG)
    await wait_for_line(runtime, tag, "ready")

    await runtime.signal_stop(tag)

    assert (await over(runtime, tag)).exit_code == 7


async def test_a_container_that_ignores_the_stop_signal_continues_and_can_be_killed(runtime):
    tag = await started(runtime, IGNORES_SIGTERM)
    await wait_for_line(runtime, tag, "ready")
    await runtime.signal_stop(tag)
    assert (await runtime.inspect(tag)).state is ContainerState.RUNNING

    await runtime.kill(tag)

    assert (await over(runtime, tag)).exit_code == 137


async def test_a_stop_signal_that_is_sigkill_ends_the_container(runtime):
    tag = await started(runtime, IGNORES_SIGTERM)

    await runtime.signal_stop(tag, "SIGKILL")

    assert (await over(runtime, tag)).exit_code == 137


async def created(runtime):
    container = launch()
    await runtime.create(container)
    return container.tag


async def running(runtime):
    return await started(runtime, LONG)


async def exited(runtime):
    return (await ended(runtime, QUICK)).tag


async def absent(_):
    return new_tag()


@pytest.mark.parametrize("signal", ["signal_stop", "kill"])
@pytest.mark.parametrize("arrange", [created, exited, absent])
async def test_only_a_running_container_can_be_signalled(runtime, arrange, signal):
    tag = await arrange(runtime)
    before = await runtime.inspect(tag)

    with pytest.raises(ContainerGone):
        await getattr(runtime, signal)(tag)

    assert await runtime.inspect(tag) == before


async def leaves_none(runtime):
    """Wait until the runtime has no container. A cluster removes one that runs some seconds after the request."""

    async def holds():
        return await runtime.survey() == ()

    await until(holds)


@pytest.mark.parametrize("arrange", [created, running, exited, absent])
async def test_a_container_in_any_state_can_be_removed_repeatedly(runtime, arrange):
    tag = await arrange(runtime)

    await runtime.remove(tag)
    await runtime.remove(tag)

    await leaves_none(runtime)
    assert await runtime.inspect(tag) is None


async def test_a_container_without_output_is_removed_with_its_log(runtime):
    found = await ended(runtime, Script(seconds=0))

    assert await runtime.remove_silent(found.tag) is None

    assert await runtime.inspect(found.tag) is None


async def test_a_container_with_output_is_not_removed_with_its_log(runtime):
    found = await ended(runtime, QUICK)

    written = await runtime.remove_silent(found.tag)

    assert [line.message async for line in written] == ["one", "two"]
    assert await runtime.inspect(found.tag) == found


async def test_of_an_absent_container_the_output_is_unknown(runtime):
    with pytest.raises(ContainerGone):
        await runtime.remove_silent(new_tag())


async def test_a_survey_has_containers_in_all_states(runtime):
    created = launch()
    await runtime.create(created)
    running = await started(runtime, LONG)
    exited = await ended(runtime, QUICK)

    seen = {found.tag: found.state for found in await runtime.survey()}

    assert seen == {
        created.tag: ContainerState.CREATED,
        running: ContainerState.RUNNING,
        exited.tag: ContainerState.EXITED,
    }


async def test_a_reported_death_equals_an_inspection(runtime):
    async with runtime.deaths() as deaths:
        tag = await started(runtime, QUICK)

        reported = await death_of(deaths, tag)

        found = await runtime.inspect(tag)
        assert reported in {tag, DeathReport(tag=tag, found=found)}
        assert found.state is ContainerState.EXITED


@pytest.mark.parametrize("call", ["kill", "remove"])
async def test_a_kill_and_the_removal_of_a_running_container_are_reported_as_deaths(runtime, call):
    tag = await started(runtime, LONG)
    async with runtime.deaths() as deaths:
        await getattr(runtime, call)(tag)

        await death_of(deaths, tag)


async def test_each_subscriber_gets_each_death(runtime):
    async with runtime.deaths() as some, runtime.deaths() as others:
        tag = await started(runtime, QUICK)

        await death_of(some, tag)
        await death_of(others, tag)


async def test_the_output_is_read_in_order(runtime):
    found = await ended(runtime, QUICK)

    lines = [line async for line in runtime.logs(found.tag, after=0)]

    assert [line.message for line in lines] == ["one", "two"]
    assert lines[0].at < lines[1].at


async def test_a_log_is_read_from_a_position(runtime):
    found = await ended(runtime, QUICK)
    first, second = [line async for line in runtime.logs(found.tag, after=0)]

    assert await output(runtime, found.tag, after=first.at) == ["two"]
    assert await output(runtime, found.tag, after=second.at) == []


async def test_a_log_is_followed_from_a_position_unless_the_engine_stores_enough(runtime):
    tag = await started(runtime, LONG)
    await wait_for_line(runtime, tag, "ready")
    (ready,) = [line async for line in runtime.logs(tag, after=0)]

    portions = await runtime.follow(tag, after=ready.at - 1)

    if portions is not None:
        async with aclosing(portions):
            assert await anext(portions) == [ready]


async def test_a_log_is_read_while_the_container_runs(runtime):
    tag = await started(runtime, LONG)

    await wait_for_line(runtime, tag, "ready")

    assert (await runtime.inspect(tag)).state is ContainerState.RUNNING


async def test_a_created_container_has_no_output(runtime):
    container = launch(QUICK)
    await runtime.create(container)

    assert await output(runtime, container.tag) == []


async def test_an_absent_container_has_no_log(runtime):
    with pytest.raises(ContainerGone):
        await output(runtime, new_tag())


async def test_a_container_gets_the_variables_of_its_job(runtime):
    script = Script(seconds=0, prints_environment=("AWS_BATCH_JOB_ATTEMPT",))
    found = await ended(runtime, script, environment=(("AWS_BATCH_JOB_ATTEMPT", "99"),), tag=new_tag(attempt=2))

    assert await output(runtime, found.tag) == ["2"]


async def test_attempts_may_have_their_own_scripts(runtime):
    played = (Script(seconds=0, exit_code=1), Script(seconds=0, exit_code=2))

    codes = [(await ended(runtime, *played, tag=new_tag(attempt))).exit_code for attempt in (1, 2, 3)]

    assert codes == [1, 2, 2]


async def test_an_engine_has_one_id(runtime):
    first, again = await runtime.identity(), await runtime.identity()

    assert first.id
    assert first.id == again.id
    assert first.time <= again.time


async def test_each_machine_has_a_name_and_resources(runtime):
    machines = await runtime.machines()

    assert len({machine.name for machine in machines}) == len(machines) >= 1
    assert all(
        machine.is_open and machine.resources.millicpus >= 1000 and machine.resources.memory_mib > 0
        for machine in machines
    )


async def test_closing_the_runtime_leaves_the_containers_running(runtime):
    tag = await started(runtime, LONG)

    await runtime.close()

    assert (await runtime.inspect(tag)).state is ContainerState.RUNNING


# The network that jobs of an environment share


def on_shared(*played):
    return replace(launch(*played), network=Network.SHARED)


@engines_only(NO_SHARED_NETWORK)
async def test_a_container_whose_network_was_removed_before_its_start_is_created_again(runtime):
    container = on_shared(QUICK)
    made = await runtime.create(container)
    before = pause_container_ids(runtime)
    remove_pause_containers(runtime)

    with pytest.raises(RuntimeUnknown):
        await runtime.start(container.tag)
    with pytest.raises(ContainerUnusable):
        await runtime.create(replace(container, container_id=made.container_id))
    again = await runtime.create(container)
    await runtime.start(container.tag)

    assert (await over(runtime, container.tag)).exit_code == 0
    assert again.container_id != made.container_id
    assert pause_container_ids(runtime).keys() == before.keys()
    assert pause_container_ids(runtime) != before


@engines_only(NO_SHARED_NETWORK)
async def test_a_running_container_survives_its_pause_container(runtime):
    container = on_shared(LONG)
    await runtime.create(container)
    await runtime.start(container.tag)
    await wait_for_line(runtime, container.tag, "ready")

    remove_pause_containers(runtime)

    assert (await runtime.inspect(container.tag)).state is ContainerState.RUNNING
    await runtime.signal_stop(container.tag)
    assert (await over(runtime, container.tag)).exit_code == 7


@engines_only(NO_SHARED_NETWORK)
@pytest.mark.fault("SE29")
async def test_each_environment_and_account_has_its_own_network(runtime):
    await runtime.create(on_shared())
    await runtime.create(replace(on_shared(), placed_on="elsewhere"))
    await runtime.create(replace(on_shared(), account="lab"))

    assert pause_container_ids(runtime).keys() == {("local", ""), ("elsewhere", ""), ("local", "lab")}


@engines_only(NO_SHARED_NETWORK)
@pytest.mark.parametrize("network", [Network.BRIDGE, Network.HOST, Network.NONE])
async def test_the_network_setting_of_an_environment_applies(runtime, network):
    container = replace(launch(QUICK), network=network)
    await runtime.create(container)
    await runtime.start(container.tag)

    assert (await over(runtime, container.tag)).exit_code == 0
    assert pause_container_ids(runtime) == {}


async def test_only_containers_that_run_are_measured_if_any_is(runtime):
    container, other = launch(replace(LONG, cpus=0.5, memory_mib=20)), launch(QUICK)
    ids = {each.tag: (await runtime.create(each)).container_id for each in (container, other)}
    for each in (container, other):
        await runtime.start(each.tag)
    await over(runtime, other.tag)
    at = SystemClock().now()

    found = await runtime.measure({**ids, new_tag(): "0" * 64}, at=at)

    assert found is None or found.keys() <= {container.tag}
    assert all(use.sampled_at == at for use in (found or {}).values())
    await runtime.kill(container.tag)

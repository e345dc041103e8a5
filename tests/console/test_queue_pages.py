"""The pages of job queues."""

import pytest

from batchq.compute.simulated.script import Script
from batchq.domain.access.accounts import Directory, User
from tests.console.test_login import visitor_of
from tests.service.job_queue import ENDLESS


async def queue(browser, name, *, vcpus=1, **members):
    """A queue with a compute environment of the same name."""
    resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": vcpus, "subnets": [], "instanceRole": "none"}
    environment = {"computeEnvironmentName": name, "type": "MANAGED", "computeResources": resources}
    await browser.call("createcomputeenvironment", environment)
    order = [{"order": 1, "computeEnvironment": name}]
    made = {"jobQueueName": name, "priority": 7, "computeEnvironmentOrder": order}
    await browser.call("createjobqueue", made | members)


async def test_the_list_shows_states_counts_and_why_the_first_job_waits(browser):
    await queue(browser, "gpu")
    await queue(browser, "night", state="DISABLED")
    await browser.run("long-1", jobQueue="gpu")
    await browser.wait_for(await browser.submit("next-1", jobQueue="gpu"), "RUNNABLE")
    page = await browser.open("/ui/queues")
    assert {"queue-default", "queue-gpu", "queue-night"} <= set(page.page.ids)
    assert "gpu enabled 7 1 1" in page.text
    assert "night disabled 7 0 0" in page.text


async def test_a_queue_shows_its_line_in_the_order_of_dispatch_with_reasons(browser):
    await queue(browser, "gpu")
    await browser.run("long-1", jobQueue="gpu")
    waiting = [await browser.submit(f"next-{index}", jobQueue="gpu") for index in range(3)]
    for job_id in waiting:
        await browser.wait_for(job_id, "RUNNABLE")
    page = await browser.open("/ui/queues/gpu")
    assert [identifier for identifier in page.page.ids if identifier.startswith("job-")] == [
        f"job-{number}" for number in waiting
    ]
    assert "2nd in line" in page.text
    assert 'title="Place in queue gpu: 2nd, behind 1 job requesting 1 vCPU.' in page.body
    assert "vCPUs in use 1" in page.text
    assert "gpu : 1 vCPUs" in page.text


async def test_jobs_of_a_group_that_stand_behind_each_other_are_one_entry_of_the_line(browser):
    await queue(browser, "gpu")
    await browser.run("long-1", jobQueue="gpu")
    for at in range(3):
        last = await browser.submit(f"fit-{at}", jobQueue="gpu", tags={"batchq:group": "fit"})
    await browser.wait_for(last, "RUNNABLE")

    assert "and the next 2 jobs of fit" in (await browser.open("/ui/queues/gpu")).text


async def test_children_of_an_array_that_stand_behind_each_other_are_one_entry_of_the_line(browser):
    await queue(browser, "gpu")
    await browser.run("long-1", jobQueue="gpu")
    array = await browser.submit("sweep", jobQueue="gpu", arrayProperties={"size": 5})
    last = await browser.submit("next", jobQueue="gpu")
    for job_id in (f"{array}:4", last):
        await browser.wait_for(job_id, "RUNNABLE")

    page = await browser.open("/ui/queues/gpu")

    assert [identifier for identifier in page.page.ids if identifier.startswith("job-")] == [
        f"job-{array}:0",
        f"job-{last}",
    ]
    assert "and the next 4 children" in page.text
    assert f"/ui/jobs/{array}/children" in page.page.links


async def test_time_limits_of_a_queue_are_shown(browser):
    limit = {
        "reason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
        "state": "RUNNABLE",
        "maxTimeSeconds": 600,
        "action": "CANCEL",
    }
    await queue(browser, "short", jobStateTimeLimitActions=[limit])
    assert "cancelled after 10 min" in (await browser.open("/ui/queues/short")).text


async def test_shares_of_a_queue_are_shown_with_weights_and_use(browser):
    shares = [{"shareIdentifier": "ada", "weightFactor": 0.5}]
    fair = {"shareDecaySeconds": 600, "computeReservation": 10, "shareDistribution": shares}
    arn = (await browser.call("createschedulingpolicy", {"name": "fair", "fairsharePolicy": fair}))["arn"]
    await queue(browser, "shared", vcpus=4, schedulingPolicyArn=arn)
    running = await browser.submit(
        "long-1", script=ENDLESS, jobQueue="shared", shareIdentifier="bob", schedulingPriorityOverride=0
    )
    await browser.wait_for(running, "RUNNING")
    page = await browser.open("/ui/queues/shared")
    assert "Use in the past counts for 10 min. 10 % are reserved" in page.text
    assert "ada 0.5 0" in page.text
    assert "bob 1.0 1" in page.text


EFFECTS = {
    "disable": "and jobs that wait in the queue still start. Jobs in the queue: 1 running, 1 waiting.",
    "drain": "do not start until the drain ends. Jobs in the queue: 1 running, 1 waiting.",
}


@pytest.mark.parametrize("order", EFFECTS)
async def test_an_order_that_closes_a_queue_is_described_first(browser, order):
    await browser.submit_waiting()
    page = await browser.open("/ui/queues/default")
    path = f"/ui/queues/default/{order}"
    assert f'href="{path}" data-dialog' in page.body
    assert f'action="{path}"' not in page.body

    asked = await browser.open(path, X_Fragment="dialog")
    assert EFFECTS[order] in asked.text
    await browser.post(path, {})
    assert f"{order}ed" in (await browser.open("/ui/queues/default")).text.replace("disabled", "disableed")


@pytest.mark.parametrize("path", ["/ui/jobs", "/ui/events", "/ui/definitions/simple", "/ui/definitions/simple:1"])
async def test_lists_of_jobs_have_no_link_to_a_queue_that_was_deleted(browser, path):
    await queue(browser, "gone")
    await browser.run(script=Script(seconds=0), jobQueue="gone", until="SUCCEEDED")
    assert "/ui/queues/gone" in (await browser.open(path)).page.links
    await browser.call("updatejobqueue", {"jobQueue": "gone", "state": "DISABLED"})
    await browser.call("deletejobqueue", {"jobQueue": "gone"})

    page = await browser.open(path)

    assert "gone" in page.page.words
    assert "/ui/queues/gone" not in page.page.links


async def test_a_queue_that_does_not_exist_has_no_page_of_an_order(browser):
    await browser.open("/ui/queues/none/drain", status=404)


async def test_a_page_beyond_the_role_of_a_user_says_who_may_see_it(tmp_path):
    async with visitor_of(tmp_path / "data", Directory(users={"ada": User(name="ada")})) as visitor:
        await visitor.log_in()
        refused = await visitor.open("/ui/queues/default/drain", status=403)
    assert "Your role does not permit this. Operators and administrators of the server can do it." in refused.text

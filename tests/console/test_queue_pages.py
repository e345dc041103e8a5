"""The pages of job queues."""

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
    waiting = [await browser.submit(f"next-{it}", jobQueue="gpu") for it in range(3)]
    for it in waiting:
        await browser.wait_for(it, "RUNNABLE")
    page = await browser.open("/ui/queues/gpu")
    assert [it for it in page.page.ids if it.startswith("job-")] == [f"job-{it}" for it in waiting]
    assert "Place in queue gpu: 2nd, behind 1 job requesting 1 vCPU." in page.text
    assert "vCPUs in use 1" in page.text
    assert "gpu : 1 vCPUs" in page.text


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
    policy = {
        "name": "fair",
        "fairsharePolicy": {"shareDistribution": [{"shareIdentifier": "ada", "weightFactor": 0.5}]},
    }
    arn = (await browser.call("createschedulingpolicy", policy))["arn"]
    await queue(browser, "shared", vcpus=4, schedulingPolicyArn=arn)
    running = await browser.submit(
        "long-1", script=ENDLESS, jobQueue="shared", shareIdentifier="bob", schedulingPriorityOverride=0
    )
    await browser.wait_for(running, "RUNNING")
    page = await browser.open("/ui/queues/shared")
    assert "ada 0.5 0" in page.text
    assert "bob 1.0 1" in page.text


async def test_an_operator_may_disable_and_drain_a_queue(browser):
    page = await browser.open("/ui/queues/default")
    assert 'action="/ui/queues/default/disable"' in page.body
    assert 'action="/ui/queues/default/drain"' in page.body

"""The page that submits a job."""

import asyncio
import html
import json
import re
import shlex
from itertools import product
from uuid import uuid4

import pytest

from batchq.domain.access.accounts import Account, Directory, User
from tests.console.test_login import visitor_of


@pytest.fixture
def browser(shared_browser):
    return shared_browser


def new_form(**fields):
    return {"invocation": str(uuid4()), "queue": "default", "action": "submit"} | fields


def form_in(page):
    """The fields of the page's form, as a browser would send them."""
    body = page.body.partition('action="/ui/submit"')[2]
    fields = dict(re.findall(r'<input [^>]*?name="(\w+)"[^>]*? value="([^"]*)"', body))
    fields |= dict(re.findall(r'<textarea [^>]*?name="(\w+)"[^>]*>\n(.*?)</textarea>', body, flags=re.DOTALL))
    chosen = re.search(r"<option selected>([^<]*)", body)
    fields |= {"queue": chosen[1]} if chosen else {}
    return {name: html.unescape(value) for name, value in fields.items()} | {"action": "submit"}


async def submitted(browser, **fields):
    answer = await browser.post("/ui/submit", new_form(**fields))
    return await browser.describe(answer.headers["Location"])


async def test_the_pages_of_a_user_without_a_queue_say_how_to_get_one(tmp_path):
    account, user = Account(name="lab", queues=("none",)), User(name="ada", account="lab")
    async with visitor_of(tmp_path / "data", Directory(accounts={"lab": account}, users={"ada": user})) as visitor:
        await visitor.log_in()
        pages = {path: await visitor.open(path) for path in ("/ui/submit", "/ui/jobs", "/ui/queues", "/ui/")}
        others = [await visitor.open(path) for path in ("/ui/definitions", "/ui/events")]
    for page in pages.values():
        assert "There is no queue that account lab may use." in page.text
        assert "batchq account set lab --queues NAMES" in page.text
    assert not any("batchq run" in page.text for page in [*pages.values(), *others])
    assert "<select" not in pages["/ui/submit"].body


async def test_the_form_of_a_server_without_a_queue_names_the_command_that_creates_one(own_browser):
    await own_browser.call("updatejobqueue", {"jobQueue": "default", "state": "DISABLED"})
    await own_browser.call("deletejobqueue", {"jobQueue": "default"})
    page = await own_browser.open("/ui/submit")
    assert "There is no queue. Operators create queues with aws batch create-job-queue ." in page.text


async def test_a_form_that_is_checked_and_then_submitted_has_the_lines_that_were_typed(browser):
    sent = new_form(image="busybox", environment="LR=0.1\r\nSEED=2", action="check")  # browsers send CR LF
    page = await browser.post("/ui/submit", sent, status=200)
    assert form_in(page)["environment"] == "LR=0.1\nSEED=2"


async def test_a_job_from_a_definition_has_what_was_typed(browser):
    first = await browser.submit("first")
    fields = {
        "definition": "simple",
        "name": "fit-1",
        "command": 'sh -c \'echo "a b"\' ""',
        "vcpus": "0.5",
        "memory": "0.5g",
        "environment": "A=1\r\nB=x=y\r\n\r\n",
        "array": "3",
        "after": first,
        "retry": "2",
        "time": "90m",
        "tags": "team=<b>",
    }
    page = await browser.post("/ui/submit", new_form(**fields), status=400)
    assert "must not have empty elements" in page.text
    job = await submitted(browser, **fields | {"command": "sh -c 'echo \"a b\"'"})
    container = job["container"]
    assert container["command"] == ["sh", "-c", 'echo "a b"']
    assert container["environment"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "x=y"}]
    amounts = {requirement["type"]: requirement["value"] for requirement in container["resourceRequirements"]}
    assert (float(amounts["VCPU"]), amounts["MEMORY"]) == (0.5, "512")
    assert (job["jobName"], job["arrayProperties"]["size"], job["retryStrategy"]["attempts"]) == ("fit-1", 3, 2)
    assert (job["timeout"], job["dependsOn"][0]["jobId"]) == ({"attemptDurationSeconds": 5400}, first)
    assert job["tags"]["team"] == "<b>"


async def test_jobs_of_an_image_share_one_definition_with_the_command_line(browser):
    first = await submitted(browser, image="python:3.12", command="python -V")
    second = await submitted(browser, image="python:3.12", memory="2g")
    assert first["jobName"] == "python"
    assert first["jobDefinition"] == second["jobDefinition"]
    assert re.search(r"job-definition/cli-python-[0-9a-f]{12}:1$", first["jobDefinition"])


async def test_a_check_submits_and_registers_nothing(own_browser):
    page = await own_browser.post("/ui/submit", new_form(image="python:3.12", action="check"), status=200)
    assert "The request is valid. Nothing was submitted." in page.text
    assert (await own_browser.call("describejobdefinitions", {}))["jobDefinitions"] == []
    assert (await own_browser.call("batchq/listjobs", {}))["jobs"] == []


async def test_a_check_warns_of_a_request_that_no_environment_can_hold(browser):
    form = new_form(image="python:3.12", memory="9000g", action="check")

    page = await browser.post("/ui/submit", form, status=200)

    assert "Cannot start: requires 9,000 GiB of memory, jobs may use" in page.text
    assert "Cannot start" not in (await browser.post("/ui/submit", form | {"memory": "1g"}, status=200)).text


async def test_the_commands_of_a_checked_form_are_equal_to_it(browser):
    await browser.submit("first")
    fields = {"definition": "simple", "command": "sh -c 'echo \"a b\"'", "memory": "1g", "tags": "a=b c"}
    page = await browser.post("/ui/submit", new_form(**fields, action="check"), status=200)
    batchq, aws = (
        shlex.split(html.unescape(re.search(f'id="{program}-command">(.*?)</pre>', page.body)[1]))
        for program in ("batchq", "aws")
    )
    assert batchq[:4] == ["batchq", "submit", "-d", "simple"]
    assert batchq[-4:] == ["--", "sh", "-c", 'echo "a b"']
    assert batchq[batchq.index("--tag") :][:2] == ["--tag", "a=b c"]
    assert aws[:3] == ["aws", "batch", "submit-job"]
    overrides = json.loads(aws[aws.index("--container-overrides") + 1])
    assert overrides["resourceRequirements"] == [{"type": "MEMORY", "value": "1024"}]
    assert 'Command: "sh", "-c", "echo "a b""' in page.text


async def test_a_form_like_a_job_repeats_it(browser):
    source = {"retryStrategy": {"attempts": 2, "evaluateOnExit": [{"action": "EXIT", "onExitCode": "3"}]}}
    old = await browser.submit("fit", command=["echo", "a b"], parameters={"p": "1"}, **source)
    form = form_in(await browser.open(f"/ui/submit?like={old}"))
    assert (form["name"], form["command"], form["definition"]) == ("fit", "echo 'a b'", "simple:1")
    answer = await browser.post("/ui/submit", form | {"memory": "128m"})
    before, after = await browser.describe(old), await browser.describe(answer.headers["Location"])
    same = ("jobName", "jobQueue", "jobDefinition", "parameters", "retryStrategy")
    assert [before[member] for member in same] == [after[member] for member in same]
    assert after["container"]["command"] == ["echo", "a b"]
    assert "batchq:rerun-of" not in after["tags"]


async def test_a_form_that_is_sent_twice_submits_one_job(browser):
    await browser.submit("first")
    form = new_form(definition="simple", name="twice")
    answers = await asyncio.gather(*(browser.post("/ui/submit", form) for _ in range(3)))
    assert len({answer.headers["Location"] for answer in answers}) == 1
    assert len((await browser.call("batchq/listjobs", {"jobNames": ["twice"]}))["jobs"]) == 1


async def test_a_form_that_is_changed_and_sent_again_submits_another_job(browser):
    await browser.submit("first")
    form = new_form(definition="simple", name="one")
    one = await browser.post("/ui/submit", form)
    two = await browser.post("/ui/submit", form | {"name": "two"})
    assert one.headers["Location"] != two.headers["Location"]


REFUSED = (
    ({}, "Give either a job definition or an image."),
    ({"definition": "a", "image": "b"}, "Give either a job definition or an image."),
    ({"definition": "none"}, "JobDefinition name none does not exist or is not in ACTIVE status"),
    ({"definition": "simple", "queue": "none"}, "JobQueue none not found."),
    (
        {"definition": "simple", "command": "echo 'a"},
        "The command cannot be split into words: No closing quotation.",
    ),
    ({"definition": "simple", "memory": "much"}, "The memory must be a size, for example 512m or 4g."),
    ({"definition": "simple", "vcpus": "-1"}, "The vCPUs must be a number, for example 2 or 0.5."),
    ({"definition": "simple", "time": "soon"}, "The time limit must be a duration"),
    ({"definition": "simple", "array": "1"}, "Array size must be between 2 and 10000"),
    ({"definition": "simple", "environment": "A"}, "is not NAME=VALUE."),
    ({"definition": "simple", "name": "<b>"}, "Job name should match valid pattern"),
)


async def test_an_error_keeps_what_was_typed(own_browser):
    await own_browser.submit("first")
    for action, (fields, sentence) in product(("check", "submit"), REFUSED):
        typed = {"tags": "team=<i>x</i>"} | fields
        page = await own_browser.post("/ui/submit", new_form(**typed, action=action), status=400)
        assert sentence in page.text
        assert {name: value for name, value in form_in(page).items() if name in typed} == typed
        assert len((await own_browser.call("batchq/listjobs", {}))["jobs"]) == 1


async def test_a_dependency_that_does_not_exist_is_refused(browser):
    await browser.submit("first")
    page = await browser.post("/ui/submit", new_form(definition="simple", after=str(uuid4())), status=400)
    assert "does not exist" in page.text


async def test_the_audit_log_names_the_operations_of_the_api(own_browser):
    await submitted(own_browser, image="busybox")
    operations = {record["operation"] for record in (await own_browser.call("batchq/listaudit", {}))["records"]}
    assert {"SubmitJob", "RegisterJobDefinition"} <= operations


async def test_a_grid_is_a_group_of_jobs_with_their_values(browser):
    await browser.submit("first")
    fields = {"definition": "simple", "name": "fit", "command": "train {lr} {seed}", "maxRunning": "3"}
    form = new_form(**fields, grid="lr=0.1,0.01\r\nseed=1..2\r\n")

    checked = await browser.post("/ui/submit", form | {"action": "check"}, status=200)
    answers = [await browser.post("/ui/submit", form) for _ in range(2)]

    assert "The grid has 4 jobs." in checked.text
    command = shlex.split(html.unescape(re.search('id="batchq-command">(.*?)</pre>', checked.body)[1]))
    assert [command[at + 1] for at, word in enumerate(command) if word == "--each"] == ["lr=0.1,0.01", "seed=1..2"]
    assert command[command.index("--max-running") :][:2] == ["--max-running", "3"]
    (path,) = {answer.headers["Location"] for answer in answers}
    page = await browser.open(path)
    assert "4 jobs" in page.text
    assert "at most 3 run at the same time" in page.text
    paths = {link for link in page.page.links if re.fullmatch("/ui/jobs/[0-9a-f-]{36}", link)}
    jobs = [await browser.describe(path) for path in sorted(paths)]
    assert sorted(job["container"]["command"] for job in jobs) == [
        ["train", lr, seed] for lr in ("0.01", "0.1") for seed in ("1", "2")
    ]
    assert sum({"name": "lr", "value": "0.1"} in job["container"]["environment"] for job in jobs) == 2


async def test_a_job_of_a_group_and_the_volumes_of_an_image(browser):
    job = await submitted(browser, image="busybox", group="fit", volumes="/data:/mnt:ro\r\n/tmp:/tmp")

    assert job["tags"]["batchq:group"] == "fit"
    container = job["container"]
    assert [volume["host"]["sourcePath"] for volume in container["volumes"]] == ["/data", "/tmp"]
    assert [(point["containerPath"], point.get("readOnly", False)) for point in container["mountPoints"]] == [
        ("/mnt", True),
        ("/tmp", False),
    ]


WRONG_FIELDS = [
    ({"memory": "much", "vcpus": "x", "grid": "lr"}, {"memory", "vcpus", "grid"}),
    ({"queue": "none"}, {"queue"}),
    ({"definition": "none"}, {"definition"}),
    ({"name": "a b"}, {"name"}),
    ({"array": "1"}, {"array"}),
    ({"volumes": "/a:/b"}, {"volumes"}),
    ({"maxRunning": "3"}, {"max_running"}),
    ({"grid": "seed=1..1001"}, {"grid"}),
    ({"grid": "a=1\na=2"}, {"grid"}),
    ({"grid": "a=1", "array": "3"}, {"grid"}),
    ({"group": "a b"}, {"group"}),
    ({"after": "11111111-1111-1111-1111-111111111111"}, {"after"}),
    ({"retry": "11"}, {"retry"}),
    ({"share": "x"}, {"share"}),
]


async def test_each_wrong_field_is_marked(own_browser):
    await own_browser.submit("first")

    for fields, marked in WRONG_FIELDS:
        page = await own_browser.post("/ui/submit", new_form(**{"definition": "simple"} | fields), status=400)
        assert set(re.findall(r'id="(\w+)"[^>]*aria-invalid="true"', page.body)) == marked, fields
        assert {f"{field}-error" for field in marked} <= set(page.page.ids)

    assert len((await own_browser.call("batchq/listjobs", {}))["jobs"]) == 1


async def test_the_definitions_are_a_list(browser):
    await browser.submit("first")

    assert '<option value="simple"></option>' in (await browser.open("/ui/submit")).body

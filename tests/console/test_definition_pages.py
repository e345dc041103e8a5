"""The pages of job definitions."""

import pytest

from batchq.api.console import definition_pages
from batchq.api.console.definition_pages import definition_difference
from batchq.compute.simulated.script import Script
from tests.console.world import HOSTILE


async def register(browser, name="train", *, status=None, **container):
    content = {
        "image": "busybox",
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}],
    }
    definition = {"jobDefinitionName": name, "type": "container", "containerProperties": content | container}
    return (await browser.call("registerjobdefinition", definition))["revision"]


async def test_the_list_has_a_row_for_each_name_with_its_newest_revision(browser):
    for image in ("old", "new"):
        await register(browser, image=image)
    await register(browser, "align")
    page = await browser.open("/ui/definitions")
    assert [identifier for identifier in page.page.ids if identifier.startswith("definition-")] == [
        "definition-align",
        "definition-train",
    ]
    assert "train train:2 2 new 1 64 MiB root" in page.text


async def test_inactive_revisions_are_listed_on_request(browser):
    await register(browser)
    await browser.call("deregisterjobdefinition", {"jobDefinition": "train:1"})
    assert "train:1" not in (await browser.open("/ui/definitions")).text
    assert "train:1 inactive" in (await browser.open("/ui/definitions?inactive=yes")).text


async def test_the_page_beyond_the_end_of_the_list_says_so(browser):
    await register(browser)
    assert "There are no further definitions." in (await browser.open("/ui/definitions?after=zzz:1")).text


async def test_a_name_shows_its_revisions_newest_first_and_its_last_jobs(browser):
    job_id = await browser.submit()
    await browser.submit(image="busybox:1.37")  # of revision 2
    page = await browser.open("/ui/definitions/simple")
    assert [identifier for identifier in page.page.ids if identifier.startswith("revision-")] == [
        "revision-2",
        "revision-1",
    ]
    assert f"job-{job_id}" in page.page.ids
    assert "/ui/submit?definition=simple%3A2" in page.page.links


async def test_revisions_are_read_in_pages(browser, monkeypatch):
    monkeypatch.setattr(definition_pages, "MAX_REVISIONS", 3)
    for _ in range(6):
        await register(browser)
    page = await browser.open("/ui/definitions/train")
    assert ("revision-4" in page.page.ids, "revision-3" in page.page.ids) == (True, False)
    assert "/ui/definitions/train?before=4" in page.page.links
    older = await browser.open("/ui/definitions/train?before=4")
    assert [identifier for identifier in older.page.ids if identifier.startswith("revision-")] == [
        "revision-3",
        "revision-2",
        "revision-1",
    ]


async def test_a_revision_shows_what_it_requests_and_its_json(browser):
    await register(browser, command=["sh", "-c", "echo a"])
    page = await browser.open("/ui/definitions/train:1")
    assert 'Command "sh", "-c", "echo a" vCPUs 1 Memory 64 MiB' in page.text
    assert '"image": "busybox"' in page.text
    assert "/ui/definitions/train:1/deregister" in page.page.links


async def test_the_difference_of_two_revisions_is_shown(browser):
    await register(browser, image="old")
    await register(browser, image="new")
    page = await browser.open("/ui/definitions/train:2?with=1")
    assert "<del>-    &#34;image&#34;: &#34;old&#34;,</del>" in page.body
    assert "<ins>+    &#34;image&#34;: &#34;new&#34;,</ins>" in page.body


@pytest.mark.fault("SE25")
def test_the_difference_of_long_texts_has_all_lines_between_the_first_and_the_last_difference():
    """Else two texts of 24 KiB could occupy a thread for minutes."""
    numbers = [str(number) for number in range(2000)]
    before, after = ("\n".join(["{", *lines, "}"]) for lines in (numbers, numbers[::-1]))

    lines = definition_difference(before, after)

    assert lines[0] == "@@ -2,2000 +2,2000 @@"
    assert lines[1:] == [*(f"-{line}" for line in numbers), *(f"+{line}" for line in reversed(numbers))]


async def test_equal_revisions_are_said_to_be_equal(browser):
    await register(browser)
    await register(browser)
    assert "The revisions 1 and 2 are equal." in (await browser.open("/ui/definitions/train:2?with=1")).text


async def test_hostile_text_of_a_definition_is_shown_as_text(browser):
    await register(browser, command=["echo", HOSTILE])
    page = await browser.open("/ui/definitions/train:1")
    assert "<script>window" not in page.body
    assert "\x1b" not in page.body
    assert "\u202e" not in page.body


async def test_a_revision_shows_what_its_last_attempts_used(browser):
    job_id = await browser.run_measured(script=Script(seconds=None, on_term=0, cpus=0.5, memory_mib=20))
    (job,) = (await browser.call("describejobs", {"jobs": [job_id]}))["jobs"]

    page = await browser.open(f"/ui/definitions/{job['jobDefinition'].rpartition('/')[2]}")

    assert "Used by the last 1 measured attempt" in page.text
    assert "Peak memory 20 MiB 20 MiB 20 MiB 64 MiB" in page.text
    assert "advice" not in page.page.ids

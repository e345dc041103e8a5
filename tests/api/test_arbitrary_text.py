"""Arbitrary text in any member that can have it is returned unchanged, or refused."""

import asyncio
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from batchq.api.http.http import reply
from batchq.errors import Invalid
from tests.api.conftest import CONTAINER
from tests.api.test_arbitrary_requests import HandlerClient
from tests.support.examples import examples

# All characters of UTF-8 except NUL, which neither a container nor a client written in C can receive.
ANY = some.text(some.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)
TEXTS = ANY.filter(lambda text: not text.lower().startswith(("aws:", "io.batchq.")))  # which no caller's tag may


class TextClient(HandlerClient):
    """Sends one text in each member that may have it, and returns the text of each response."""

    async def round_trip(self, text):
        container = CONTAINER | {"command": [text], "environment": [{"name": "A", "value": text}]}
        await self.send(
            "RegisterJobDefinition",
            {
                "jobDefinitionName": "texts",
                "type": "container",
                "containerProperties": container,
                "parameters": {text: text},
                "tags": {text: text},
            },
        )
        members = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "texts", "tags": {"k": text}}
        job_id = json.loads(await self.send("SubmitJob", members))["jobId"]
        await self.send("TerminateJob", {"jobId": job_id, "reason": text})
        (job,) = json.loads(await self.send("DescribeJobs", {"jobs": [job_id]}))["jobs"]
        (made,) = json.loads(await self.send("DescribeJobDefinitions", {"jobDefinitions": ["texts:1"]}))[
            "jobDefinitions"
        ]
        return {
            "the definition's command": made["containerProperties"]["command"][0],
            "the definition's environment": made["containerProperties"]["environment"][0]["value"],
            "a parameter": made["parameters"][text],
            "a tag of the definition": made["tags"][text],
            "the command": job["container"]["command"][0],
            "the environment": job["container"]["environment"][0]["value"],
            "a tag": job["tags"]["k"],
            "the reason": job["statusReason"],
        }


async def comes_back(text):
    client = TextClient()
    await client.prepare()
    return await client.round_trip(text)


@pytest.mark.fault("IN05")
@settings(max_examples=examples(40), deadline=None)
@example("\u202ertl \u200f")
@example("👩‍🚀\U0001d518\U0010ffff")
@example("\x1b[31m\r\n\t\x7f\x85\u2028")
@given(TEXTS)
def test_text_is_returned_unchanged(text):
    described = asyncio.run(comes_back(text))

    assert described == dict.fromkeys(described, text)


@pytest.mark.fault("IN05")
@settings(max_examples=examples(20), deadline=None)
@given(TEXTS, some.sampled_from(["\0", "\ud800", "\udfff"]), TEXTS)
def test_invalid_text_is_refused(before, wrong, after):
    with pytest.raises(Invalid):
        asyncio.run(comes_back(before + wrong + after))


@settings(deadline=None)
@example("a file called \udcff")
@given(some.text(some.characters(categories=["L", "M", "N", "P", "S", "Z", "C"]), max_size=60))
def test_responses_equal_those_of_pythons_json_encoder(text):
    content = {"message": text, text: [text, None, True, 1, 0.5]}

    answer = reply(content)

    assert json.loads(answer.body) == json.loads(json.dumps(content))
    assert answer.body.isascii()

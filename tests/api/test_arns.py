"""Names, ARNs and credentials."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from batchq.api.auth.authentication import Credential, parse_credential
from batchq.api.batch.arns import ArnKind, BatchArns, is_job_id, is_member_id, revision_of
from batchq.domain.ids import DefinitionRef, JobId
from batchq.errors import Invalid

ARNS = BatchArns(account="123456789012", region="eu-central-1")
NAMES = some.from_regex(r"\A[A-Za-z0-9_-]{1,128}\Z")
JOB = "5d1f6c1e-0000-4000-8000-000000000000"


@given(NAMES)
def test_an_arn_resolves_to_its_name(name):
    assert ARNS.named(ArnKind.QUEUE, ARNS.queue(name)) == name
    assert ARNS.named(ArnKind.ENVIRONMENT, ARNS.environment(name)) == name
    assert ARNS.named(ArnKind.POLICY, ARNS.policy(name)) == name
    assert ARNS.named(ArnKind.CONSUMABLE, ARNS.consumable(name)) == name
    assert ARNS.resource(ARNS.job(JobId(name))) == (ArnKind.JOB, name)


@given(NAMES, some.integers(1, 999_999_999))
def test_the_arn_of_a_definition_resolves_to_its_revision(name, revision):
    ref = DefinitionRef(name=name, revision=revision)

    assert ARNS.definition_named(ARNS.definition(ref)) == (name, revision)
    assert ARNS.definition_named(str(ref)) == (name, revision)


@given(some.text())
def test_other_text_is_a_name_or_resolves_to_none(text):
    assert ARNS.named(ArnKind.QUEUE, text) in {text, None}
    assert ARNS.resource(text) is None


@pytest.mark.parametrize(
    "text", ["", ":", "a:", ":1", "a:0", "a:01", "a:-1", "a:1:2", "a:1\n", "a/b", "a" * 129, "a:" + "1" * 10]
)
def test_text_that_is_not_a_definition_resolves_to_none(text):
    assert revision_of(text) is None


@pytest.mark.parametrize(
    "arn",
    [
        "arn:aws:batch:eu-central-1::job-queue/it",
        "arn:aws:ecs:eu-central-1:123456789012:job-queue/it",
        *(
            f"arn:aws:batch:eu-central-1:123456789012:{text}"
            for text in ("job/it", "job-queue/", "job-queue/a/b", "job-queue")
        ),
    ],
)
def test_an_arn_of_another_kind_resolves_to_none(arn):
    assert ARNS.named(ArnKind.QUEUE, arn) is None


def test_an_arn_of_another_account_is_an_error_for_one_resource_and_omitted_from_lists():
    foreign = "arn:aws:batch:eu-central-1:210987654321:job-queue/it"

    with pytest.raises(Invalid, match="of account 210987654321, and this server's account is 123456789012"):
        ARNS.named(ArnKind.QUEUE, foreign)
    assert ARNS.all_named(ArnKind.QUEUE, [foreign, "it"]) == ("it",)


@pytest.mark.fault("IN19")
@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
@pytest.mark.parametrize("region", ["us-east-1", "cn-north-1", ""])
def test_the_region_of_an_arn_is_ignored(partition, region):
    assert ARNS.named(ArnKind.QUEUE, f"arn:{partition}:batch:{region}:123456789012:job-queue/it") == "it"


def test_only_ids_of_jobs_children_and_nodes_are_valid():
    members = JOB + ":0", JOB + ":9999", JOB + "#12"
    others = "", "garbage", JOB.upper(), JOB + ":", JOB + ":x", JOB + "\n", JOB + "/..", JOB[1:]

    assert [member for member in (JOB, *members, *others) if is_job_id(member)] == [JOB, *members]
    assert [member for member in (JOB, *members, *others) if is_member_id(member)] == [*members]


SCOPE = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261121/eu-west-3/batch/aws4_request, SignedHeaders=host, Signature=0"


def test_a_credential_has_the_access_key_and_the_region():
    assert parse_credential(SCOPE) == Credential(access_key="AKIDEXAMPLE", region="eu-west-3")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic dXNlcjpwYXNz",
        "Bearer x",
        SCOPE.replace("eu-west-3", "EU WEST"),
        SCOPE.replace("eu-west-3", "a" * 33),
        SCOPE.replace("aws4_request", "aws4_request_of_mine"),
        SCOPE.replace("20261121", "today"),
        SCOPE.replace("/batch", ""),
    ],
)
def test_without_a_credential_scope_the_credential_is_empty(header):
    assert parse_credential(header) == Credential()


async def test_without_a_credential_arns_have_the_servers_region(default_queue, accepted):
    (queue,) = (await accepted("DescribeJobQueues", {}))["jobQueues"]

    assert queue["jobQueueArn"] == "arn:aws:batch:us-east-1:123456789012:job-queue/default"

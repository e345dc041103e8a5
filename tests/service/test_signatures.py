"""boto3 and the AWS CLI with keys, before a real server: changed and repeated requests."""

import json
import subprocess
from contextlib import closing
from http.client import HTTPConnection
from uuid import uuid4

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.service.test_keys import Keys
from tests.service.waiting import register
from tests.support.service import BATCHQ, serving_forked

ASKED = {"jobName": "j", "jobQueue": "default", "jobDefinition": "sleeper"}
DENIED, INCOMPLETE = "InvalidSignatureException", "IncompleteSignatureException"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    data = tmp_path_factory.mktemp("signatures") / "data"
    with serving_forked(data, "--runtime", "simulated", "--auth", "sigv4") as service:
        register(service.client(key=Keys(data).create()), "sleeper", "sleep", "1000")
        yield service


@pytest.fixture(scope="module")
def key(served):
    return Keys(served.data).create()


@pytest.fixture
def batch(served, key):
    return served.client(key=key, tries=1)


@pytest.fixture
def jobs(batch):
    """How many there are."""

    def count():
        pages = batch.get_paginator("list_jobs").paginate(
            jobQueue="default", filters=[{"name": "JOB_NAME", "values": ["*"]}]
        )
        return sum(len(it["jobSummaryList"]) for it in pages)

    return count


def no_signature(request):
    del request.headers["Authorization"]


def another_signature(request):
    printed = request.headers["Authorization"].decode()
    request.headers["Authorization"] = printed[:-1] + ("0" if printed[-1] != "0" else "1")


def another_key(request):
    printed = request.headers["Authorization"].decode()
    request.headers["Authorization"] = printed.replace("Credential=BQIA", "Credential=BQIB")


def another_service(request):
    request.headers["Authorization"] = request.headers["Authorization"].decode().replace("/batch/aws4", "/s3/aws4")


def another_day(request):
    day = request.headers["X-Amz-Date"].decode()[:8]
    request.headers["Authorization"] = request.headers["Authorization"].decode().replace(f"/{day}/", "/20200101/")


def another_body(request):
    request.body = request.body.replace(b"sleeper", b"slipper")


def another_path(request):
    request.url = request.url.replace("submitjob", "listjobs")


def a_query(request):
    request.url += "?x=y"


def another_type(request):
    request.headers["Content-Type"] = "application/x-amz-json-1.1"


def a_header_of_amazons(request):
    request.headers["X-Amz-Target"] = "AWSBatch.SubmitJob"


def another_date(request):
    date = request.headers["X-Amz-Date"].decode()
    request.headers["X-Amz-Date"] = date[:-2] + ("0Z" if date[-2] != "0" else "1Z")


def another_payload(request):
    request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD"


TAMPERED = [
    pytest.param(change, code, marks=pytest.mark.fault(row), id=change.__name__)
    for row, change, code in [
        ("SE03", no_signature, "MissingAuthenticationTokenException"),
        ("SE03", another_signature, DENIED),
        ("SE03", another_body, DENIED),
        ("SE03", another_path, DENIED),
        ("SE03", a_query, DENIED),
        ("SE03", another_type, DENIED),
        ("SE03", a_header_of_amazons, INCOMPLETE),
        ("SE04", another_date, DENIED),
        ("SE04", another_day, DENIED),
        ("SE04", another_service, DENIED),
        ("SE05", another_payload, INCOMPLETE),
        ("SE06", another_key, DENIED),
    ]
]


@pytest.mark.parametrize(("change", "code"), TAMPERED)
def test_a_request_changed_after_signing_is_refused(batch, jobs, change, code):
    before = jobs()
    batch.meta.events.register("before-send.batch.SubmitJob", lambda request, **_: change(request))

    with pytest.raises(ClientError) as why:
        batch.submit_job(**ASKED)

    assert (why.value.response["Error"]["Code"], why.value.response["ResponseMetadata"]["HTTPStatusCode"]) == (
        code,
        403,
    )
    assert jobs() == before


def test_an_unchanged_request_is_accepted(batch, jobs):
    before = jobs()

    batch.submit_job(**ASKED)

    assert jobs() == before + 1


@pytest.mark.fault("SE05")
def test_boto3_with_unsigned_bodies_is_refused(batch, jobs):
    before = jobs()

    def unsigned(request, **_):
        request.context["payload_signing_enabled"] = False

    batch.meta.events.register("before-sign.batch.SubmitJob", unsigned)

    with pytest.raises(ClientError, match=DENIED):
        batch.submit_job(**ASKED)

    assert jobs() == before


def cli(served, key):
    """The exit status, and stdout with stderr."""
    signs = served.environment() | {"AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1]}
    words = [BATCHQ.parent / "aws", "batch", "describe-job-queues", "--query", "jobQueues[].jobQueueName"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=signs)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.fault("SE06")
def test_an_unknown_key_and_a_wrong_secret_have_the_same_error(served, key):
    assert cli(served, key)[0] == 0

    wrong, unknown = cli(served, (key[0], "not this")), cli(served, ("BQIAUNKNOWNUNKNOWN22", key[1]))

    assert wrong == unknown
    assert wrong[0] != 0
    assert DENIED in wrong[1]


@pytest.mark.fault("SE07")
def test_the_aws_cli_is_refused_as_soon_as_its_key_is_disabled(served):
    keys = Keys(served.data)
    old, new = keys.create(), keys.create()
    assert cli(served, old)[0] == 0

    keys("disable", old[0])

    assert DENIED in cli(served, old)[1]
    assert cli(served, new)[0] == 0


@pytest.fixture
def sends(served, key):
    """A SubmitJob that is signed once; answers a function that sends it, under a name that SDKs give a call."""
    body, headers = json.dumps(ASKED).encode(), {"Content-Type": "application/json"}
    request = AWSRequest("POST", f"{served.url}/v1/submitjob", headers=headers, data=body)
    SigV4Auth(Credentials(*key), "batch", "us-east-1").add_auth(request)
    signed = dict(request.headers.items())

    def sends(invocation):
        with closing(HTTPConnection(served.url.removeprefix("http://"))) as connection:
            connection.request("POST", "/v1/submitjob", body, signed | {"amz-sdk-invocation-id": invocation})
            with connection.getresponse() as answer:
                return answer.status, json.loads(answer.read())["jobId"]

    return sends


def test_equal_submissions_in_one_second_create_separate_jobs(sends, jobs):
    """Equal requests have equal signatures and cannot be distinguished from repetitions: see decision 0021."""
    before = jobs()

    answers = [sends(str(uuid4())) for _ in range(20)]

    assert {status for status, _ in answers} == {200}
    assert jobs() == before + len({job for _, job in answers}) == before + 20


def test_a_retry_of_an_sdk_in_the_same_second_creates_one_job(sends, jobs):
    before, invocation = jobs(), str(uuid4())

    answers = [sends(invocation) for _ in range(3)]

    assert answers == [answers[0]] * 3
    assert answers[0][0] == 200
    assert jobs() == before + 1

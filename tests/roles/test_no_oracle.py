"""No request reveals what other users have."""

import pytest

from tests.roles.people import Request, batch, sagemaker, serve
from tests.roles.resources import ARN, training_job

OPERATIONS = {
    "SubmitJob": lambda queue: batch("SubmitJob", jobName="a", jobQueue=queue, jobDefinition="no-matter"),
    "ListJobs": lambda queue: batch("ListJobs", jobQueue=queue),
    "DescribeJobQueues": lambda queue: batch("DescribeJobQueues", jobQueues=[queue]),
    "GetJobQueueSnapshot": lambda queue: batch("GetJobQueueSnapshot", jobQueue=queue),
    "SageMaker.CreateTrainingJob": lambda queue: sagemaker(
        "CreateTrainingJob", **training_job("no-matter") | {"Tags": [{"Key": "batchq:queue", "Value": queue}]}
    ),
    "GetActivity": lambda queue: Request(path="/v1/batchq/activity", body={"jobQueue": queue}),
    "ListTagsForResource": lambda queue: Request(path=f"/v1/tags/{ARN}job-queue/{queue}", method="GET"),
}


@pytest.fixture
def fields(resources):
    """The members of a request that two users send."""
    return {"jobName": "again", "jobQueue": "still", "jobDefinition": resources.defined("rory")}


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.usefixtures("resources")
def test_a_queue_that_an_account_may_not_use_is_as_if_it_did_not_exist(server, operation):
    barred = server.send("zoe", OPERATIONS[operation]("default"))
    unknown = server.send("zoe", OPERATIONS[operation]("defau1t"))

    assert (barred.status, barred.headers) == (unknown.status, unknown.headers)
    assert without_request(barred.body.replace(b"default", b"defau1t")) == without_request(unknown.body)


@pytest.mark.usefixtures("resources")
def test_a_user_of_one_queue_sees_that_one_only(server):
    assert [queue["jobQueueName"] for queue in server.do("zoe", "DescribeJobQueues")["jobQueues"]] == ["still"]
    assert server.send("zoe", batch("ListJobs", jobQueue="still")).status == 200


@pytest.mark.fault("SE08")
def test_the_name_of_a_hidden_training_job_is_free(server, resources):
    name = resources.sagemaker("ada").job

    answers = [server.send(who, sagemaker("CreateTrainingJob", **training_job(name))) for who in ("ada", "eve", "eve")]

    assert [answer.status for answer in answers] == [400, 200, 400]
    assert [answer.content.get("__type") for answer in answers] == ["ResourceInUse", None, "ResourceInUse"]


@pytest.mark.fault("SE08")
def test_an_operator_finds_the_newest_training_job_of_a_name_and_a_user_the_own_one(server, resources):
    name = resources.sagemaker("ada").job
    assert server.send("eve", sagemaker("CreateTrainingJob", **training_job(name))).status == 200

    assert server.send("oda", sagemaker("StopTrainingJob", TrainingJobName=name)).status == 200

    described = {
        who: server.send(who, sagemaker("DescribeTrainingJob", TrainingJobName=name)).content for who in ("ada", "eve")
    }
    assert {who: job["TrainingJobStatus"] for who, job in described.items()} == {"ada": "InProgress", "eve": "Stopped"}


@pytest.mark.fault("SE08")
def test_the_page_token_of_another_user_returns_nothing_of_hidden_job(server, fields):
    marked = Request(path="/v1/submitjob", body=fields, headers={"amz-sdk-invocation-id": "one-for-both"})

    first, again = (server.send("bob", marked).content["jobId"] for _ in range(2))
    other = server.send("ada", marked).content["jobId"]

    assert first == again != other


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("operation", ["canceljobs", "terminatejobs"])
@pytest.mark.parametrize("fields", [{"jobNames": ["a-*"]}, {"jobStatuses": ["SUBMITTED", "RUNNABLE", "RUNNING"]}])
def test_a_bulk_stop_neither_stops_nor_counts_jobs_of_others(server, resources, operation, fields):
    hidden_job = resources.fresh("bob")

    answer = server.send("zoe", Request(path=f"/v1/batchq/{operation}", body=fields))  # other tests use jobs of eve

    assert (answer.status, resources.until(hidden_job.job, "RUNNABLE")["jobId"]) == (200, hidden_job.job)
    assert hidden_job.job not in answer.body.decode()


@pytest.mark.fault("SE08")
@pytest.mark.parametrize(
    ("who", "member", "names"),
    [
        ("eve", "users", ("bob", "bbb")),
        ("eve", "accounts", ("lab", "lbb")),
        ("zoe", "jobQueues", ("default", "defau1t")),
    ],
)
def test_a_hidden_name_in_a_filter_is_answered_as_an_absent_one(server, resources, who, member, names):
    hidden, absent = names
    hidden_job = resources.fresh("bob")

    first, second = (server.send(who, stopping(**{member: [name]})) for name in (hidden, absent))

    assert (first.status, first.headers) == (second.status, second.headers) == (400, first.headers)
    assert without_request(first.body.replace(hidden.encode(), absent.encode())) == without_request(second.body)
    assert resources.until(hidden_job.job, "RUNNABLE")["jobId"] == hidden_job.job


def stopping(**fields):
    return Request(path="/v1/batchq/terminatejobs", body=fields)


@pytest.mark.fault("SE08")
def test_pages_are_full_of_visible_jobs_among_many_hidden_ones(server, resources):
    own = [resources.first("cy").job for _ in range(3)]
    resources.first("bob")

    fields = {"jobQueue": "front", "jobStatus": "RUNNABLE", "maxResults": 2}
    first = server.do("cy", "ListJobs", **fields)
    rest = server.do("cy", "ListJobs", **fields, nextToken=first["nextToken"])

    listed = [job["jobId"] for page in (first, rest) for job in page["jobSummaryList"]]
    assert listed[:3] == own[::-1]
    assert len(first["jobSummaryList"]) == 2


def without_request(body):
    return body.split(b", RequestId:")[0]


def test_a_job_shows_its_owner_and_children_have_that_of_their_array(server, resources):
    array = resources.kept("cy", "array").job
    fields = [batch("DescribeJobs", jobs=[f"{array}:0"]), batch("ListJobs", arrayJobId=array, jobStatus="RUNNABLE")]

    (job,), children = (next(iter(server.send("cora", field).content.values())) for field in fields)

    assert [child["batchq"] for child in (job, *children)] == [{"user": "cy", "account": "team"}] * 3


def test_a_refused_training_job_names_the_uri_and_no_path_of_the_server(tmp_path):
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/in"}}
    inputs = [{"ChannelName": "train", "DataSource": source}]
    request = sagemaker("CreateTrainingJob", **training_job("a-job") | {"InputDataConfig": inputs, "Tags": []})
    with serve(tmp_path / "data", s3_root=tmp_path / "s3") as server:
        answer = server.send("ada", request)

    assert answer.status == 400
    assert b"'s3://bucket/in' is not " in answer.body
    assert str(tmp_path).encode() not in answer.body

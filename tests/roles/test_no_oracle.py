"""No request reveals what other users have."""

import pytest

from tests.roles.cast import Request, batch, sagemaker
from tests.roles.props import ARN, training_job

DOORS = {
    "SubmitJob": lambda queue: batch("SubmitJob", jobName="a", jobQueue=queue, jobDefinition="no-matter"),
    "ListJobs": lambda queue: batch("ListJobs", jobQueue=queue),
    "DescribeJobQueues": lambda queue: batch("DescribeJobQueues", jobQueues=[queue]),
    "GetJobQueueSnapshot": lambda queue: batch("GetJobQueueSnapshot", jobQueue=queue),
    "SageMaker.CreateTrainingJob": lambda queue: sagemaker(
        "CreateTrainingJob", **training_job("no-matter") | {"Tags": [{"Key": "batchq:queue", "Value": queue}]}
    ),
    "ListTagsForResource": lambda queue: Request(path=f"/v1/tags/{ARN}job-queue/{queue}", method="GET"),
}


@pytest.fixture
def asked(props):
    """What two people ask in the same words."""
    return {"jobName": "again", "jobQueue": "still", "jobDefinition": props.defined("rory")}


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.usefixtures("props")
def test_a_queue_that_an_account_may_not_use_is_as_if_it_did_not_exist(stage, door):
    barred = stage.ask("zoe", DOORS[door]("default"))
    unknown = stage.ask("zoe", DOORS[door]("defau1t"))

    assert (barred.status, barred.headers) == (unknown.status, unknown.headers)
    assert without_request(barred.body.replace(b"default", b"defau1t")) == without_request(unknown.body)


@pytest.mark.usefixtures("props")
def test_a_user_of_one_queue_sees_that_one_only(stage):
    assert [it["jobQueueName"] for it in stage.do("zoe", "DescribeJobQueues")["jobQueues"]] == ["still"]
    assert stage.ask("zoe", batch("ListJobs", jobQueue="still")).status == 200


@pytest.mark.fault("SE08")
def test_the_name_of_a_hidden_training_job_is_free(stage, props):
    name = props.sagemaker("ada").job

    answers = [stage.ask(who, sagemaker("CreateTrainingJob", **training_job(name))) for who in ("ada", "eve", "eve")]

    assert [it.status for it in answers] == [400, 200, 400]
    assert [it.told.get("__type") for it in answers] == ["ResourceInUse", None, "ResourceInUse"]


@pytest.mark.fault("SE08")
def test_an_operator_finds_the_newest_training_job_of_a_name_and_a_user_the_own_one(stage, props):
    name = props.sagemaker("ada").job
    assert stage.ask("eve", sagemaker("CreateTrainingJob", **training_job(name))).status == 200

    assert stage.ask("oda", sagemaker("StopTrainingJob", TrainingJobName=name)).status == 200

    described = {
        who: stage.ask(who, sagemaker("DescribeTrainingJob", TrainingJobName=name)).told for who in ("ada", "eve")
    }
    assert {who: it["TrainingJobStatus"] for who, it in described.items()} == {"ada": "InProgress", "eve": "Stopped"}


@pytest.mark.fault("SE08")
def test_the_page_token_of_another_user_returns_nothing_of_theirs(stage, asked):
    marked = Request(path="/v1/submitjob", body=asked, headers={"amz-sdk-invocation-id": "one-for-both"})

    his, again = (stage.ask("bob", marked).told["jobId"] for _ in range(2))
    hers = stage.ask("ada", marked).told["jobId"]

    assert his == again != hers


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("operation", ["canceljobs", "terminatejobs"])
@pytest.mark.parametrize("asked", [{"jobNames": ["a-*"]}, {"states": ["all"]}])
def test_a_bulk_stop_neither_stops_nor_counts_jobs_of_others(stage, props, operation, asked):
    theirs = props.fresh("bob")

    answer = stage.ask("eve", Request(path=f"/v1/batchq/{operation}", body=asked))

    assert (answer.status, props.until(theirs.job, "RUNNABLE")["jobId"]) == (200, theirs.job)
    assert theirs.job not in answer.body.decode()


@pytest.mark.fault("SE08")
@pytest.mark.parametrize(
    ("who", "member", "names"),
    [
        ("eve", "users", ("bob", "bbb")),
        ("eve", "accounts", ("lab", "lbb")),
        ("zoe", "jobQueues", ("default", "defau1t")),
    ],
)
def test_a_hidden_name_in_a_filter_is_answered_as_an_absent_one(stage, props, who, member, names):
    hidden, absent = names
    theirs = props.fresh("bob")

    first, second = (stage.ask(who, stopping(**{member: [name]})) for name in (hidden, absent))

    assert (first.status, first.headers) == (second.status, second.headers) == (400, first.headers)
    assert without_request(first.body.replace(hidden.encode(), absent.encode())) == without_request(second.body)
    assert props.until(theirs.job, "RUNNABLE")["jobId"] == theirs.job


def stopping(**asked):
    return Request(path="/v1/batchq/terminatejobs", body=asked)


@pytest.mark.fault("SE08")
def test_pages_are_full_of_visible_jobs_among_many_hidden_ones(stage, props):
    own = [props.first("cy").job for _ in range(3)]
    props.first("bob")

    asked = {"jobQueue": "front", "jobStatus": "RUNNABLE", "maxResults": 2}
    first = stage.do("cy", "ListJobs", **asked)
    rest = stage.do("cy", "ListJobs", **asked, nextToken=first["nextToken"])

    told = [it["jobId"] for page in (first, rest) for it in page["jobSummaryList"]]
    assert told[:3] == own[::-1]
    assert len(first["jobSummaryList"]) == 2


def without_request(body):
    return body.split(b", RequestId:")[0]


def test_a_job_shows_its_owner_and_children_have_that_of_their_array(stage, props):
    array = props.kept("cy", "array").job
    asked = [batch("DescribeJobs", jobs=[f"{array}:0"]), batch("ListJobs", arrayJobId=array, jobStatus="RUNNABLE")]

    (job,), children = (next(iter(stage.ask("cora", it).told.values())) for it in asked)

    assert [it["batchq"] for it in (job, *children)] == [{"user": "cy", "account": "team"}] * 3

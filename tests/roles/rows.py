"""The matrix of permissions: each operation for each role and each owner of the resource.

A cell has a code for each of WHOSE, in that order: D the operation is carried out; H the response is that for a
resource that does not exist; X the operation is denied. An operation without resources of users has one code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from tests.roles.people import MODELARTS, Request, batch, logs, sagemaker
from tests.roles.resources import ARN, LICENCES, REASON, Owned, modelarts_job, training_job
from tests.service.waiting import container

USER, COORDINATOR, OPERATOR, ADMIN = "ada", "cora", "oda", "amy"
WHOSE = {"own": None, "same account": "bob", "account below": "cy", "account above": "rory", "other account": "eve"}

Cells = Mapping[str, str]

REACH: Cells = {USER: "DHHHH", COORDINATOR: "DDDHH", OPERATOR: "DDDDD", ADMIN: "DDDDD"}
USE: Cells = {USER: "DDHDH", COORDINATOR: "DDDDH", OPERATOR: "DDDDD", ADMIN: "DDDDD"}
CHANGE: Cells = {USER: "DXHXH", COORDINATOR: "DDDXH", OPERATOR: "DDDDD", ADMIN: "DDDDD"}
NAME: Cells = {USER: "DXXXX", COORDINATOR: "DDDXX", OPERATOR: "DDDDD", ADMIN: "DDDDD"}
OWN: Cells = {USER: "DHHHH", COORDINATOR: "DXXHH", OPERATOR: "DXXXX", ADMIN: "DXXXX"}

ALL: Cells = {USER: "D", COORDINATOR: "D", OPERATOR: "D", ADMIN: "D"}
SHARED: Cells = {USER: "X", COORDINATOR: "X", OPERATOR: "D", ADMIN: "D"}
ACCOUNTS: Cells = {USER: "X", COORDINATOR: "D", OPERATOR: "D", ADMIN: "D"}
DATA: Cells = {USER: "X", COORDINATOR: "X", OPERATOR: "X", ADMIN: "D"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the matrix.

    The operation counts as carried out if the response contains what `revealed` returns, if an admin then sees what
    `seen` describes, or otherwise if the response differs from that for a resource that does not exist.
    """

    cells: Cells
    request: Callable[[Owned], Request]
    #: The method of Resources that makes the resource.
    kind: str = "fresh"
    #: Whether the operation changes the resource: each cell then has a new one.
    changes: bool = False
    revealed: Callable[[Owned], str] | None = None
    #: A request of the admin, and a part of its response after the change.
    seen: tuple[Callable[[Owned], Request], str] | None = None


def _reach(request: Callable[[Owned], Request], kind: str = "fresh", **more) -> Row:
    """An operation on a job, which those carry out who reach the job."""
    return Row(cells=REACH, request=request, kind=kind, **more)


def _use(request: Callable[[Owned], Request]) -> Row:
    """An operation that uses a definition."""
    return Row(cells=USE, request=request)


def _listed(operation: str, kind: str = "fresh", *, cells: Cells = REACH, of=lambda owned: owned.job, **members) -> Row:
    """A list that contains the resource or does not."""
    return Row(cells=cells, request=lambda _: batch(operation, **members), kind=kind, revealed=of)


def _stop(request: Callable[[Owned], Request]) -> Row:
    return _reach(request, changes=True, seen=(_describe, f'"statusReason":"{REASON}"'))


def _describe(owned: Owned) -> Request:
    return batch("DescribeJobs", jobs=[owned.job])


def _definition(owned: Owned) -> Request:
    return batch("DescribeJobDefinitions", jobDefinitions=[owned.ref])


def _tags(arn: Callable[[Owned], str], method: str = "GET", **more) -> Callable[[Owned], Request]:
    keys = "?tagKeys=k" if method == "DELETE" else ""
    return lambda owned: Request(path=f"/v1/tags/{arn(owned)}{keys}", method=method, **more)


def _shared(operation: str, cells: Cells = ALL, **members) -> Row:
    """An operation without resources of users."""
    return Row(cells=cells, request=lambda _: batch(operation, **members))


def _native(path: str, cells: Cells, **body) -> Row:
    return Row(cells=cells, request=lambda _: Request(path=f"/v1/batchq/{path}", body=body))


def _webhook(operation: str, cells: Cells = REACH, **members) -> Row:
    return Row(
        cells=cells,
        request=lambda owned: Request(path=f"/v1/batchq/{operation}", body={"webhook": owned.job} | members),
        kind="webhook",
        changes=operation != "testwebhook",
    )


def _found(members) -> Request:
    return Request(path="/v1/batchq/listjobs", body=members)


def _get(part: str, kind: str = "fresh") -> Row:
    return _reach(lambda owned: Request(path=f"/v1/batchq/jobs/{owned.job}{part}", method="GET"), kind)


def _changed(path: str) -> Callable[[Owned], Request]:
    return lambda owned: Request(path=f"/v1/batchq/jobs/{owned.job}/{path}", body={})


def _training(path: str, **more) -> Request:
    return Request(path=f"/v2/training/jobs{path}", **more)


def _get_training(part: str, kind: str = "fresh") -> Row:
    return _reach(lambda owned: _training(f"/{owned.job}{part}", method="GET"), kind)


def _modelarts(part: str = "", method: str = "GET", kind: str = "fresh", **more) -> Row:
    body = more.pop("body", None)
    return _reach(
        lambda owned: Request(path=f"{MODELARTS}/training-jobs/{owned.job}{part}", method=method, body=body),
        kind,
        **more,
    )


def _open_modelarts(part: str, method: str = "GET", body=None) -> Row:
    return Row(cells=ALL, request=lambda _: Request(path=f"{MODELARTS}/{part}", method=method, body=body))


def _described(owned: Owned) -> Request:
    return sagemaker("DescribeTrainingJob", TrainingJobName=owned.job)


def _sagemaker(operation: str, **more) -> Row:
    return _reach(lambda owned: sagemaker(operation, TrainingJobName=owned.job), "sagemaker", **more)


def _sagemaker_log(operation: str) -> Row:
    """Streams, or events of streams, by the name of a job that has run."""
    group = "/aws/sagemaker/TrainingJobs"
    return _reach(lambda owned: logs(operation, logGroupName=group, logStreamNamePrefix=f"{owned.job}/"), "trained")


def _search(queue: str, members, kind: str = "fresh", of=lambda owned: owned.job) -> Row:
    return _reach(lambda _: _found({"jobQueues": [queue]} | members), kind, revealed=of)


def _log(operation: str, members: Callable[[Owned], Mapping[str, object]], **more) -> Row:
    return _reach(lambda owned: logs(operation, logGroupName="/aws/batch/job", **members(owned)), "ran", **more)


def _submit(owned: Owned, **members) -> Request:
    return batch("SubmitJob", jobName="a-job", jobQueue="still", jobDefinition="everybodys", **members)


def _stopping(path: str) -> Row:
    return _stop(lambda owned: Request(path=f"/v1/batchq/{path}", body={"jobs": [owned.job], "reason": REASON}))


_job_arn, _definition_arn = (lambda owned: owned.job_arn), (lambda owned: owned.definition_arn)
_queue_arn = lambda _: quote(f"{ARN}job-queue/still", safe="")  # noqa: E731 - beside its two brothers
_PEOPLE_ROWS = {
    "CreateAccount": SHARED,
    "UpdateAccount": SHARED,
    "DeleteAccount": SHARED,
    "DescribeAccounts": ACCOUNTS,
    "CreateUser": ACCOUNTS,
    "UpdateUser": ACCOUNTS,
    "DeleteUser": ACCOUNTS,
    "DescribeUsers": ACCOUNTS,
    "CreateKey": ALL,
    "UpdateKey": ALL,
    "DeleteKey": ALL,
    "ListKeys": ALL,
    "WhoAmI": ALL,
}
_KINDS = ("ComputeEnvironment", "JobQueue", "SchedulingPolicy", "ConsumableResource")
_GROUND_ROWS = [verb + kind for kind in _KINDS for verb in ("Create", "Update", "Delete")]

# By the operation, and what of it, where several rows are of one.
ROWS: Mapping[tuple[str, str], Row] = {
    ("DescribeJobs", ""): _reach(_describe),
    ("DescribeJobs", "of an array"): _reach(lambda owned: batch("DescribeJobs", jobs=[f"{owned.job}:1"]), "array"),
    ("DescribeJobs", "of a gang"): _reach(lambda owned: batch("DescribeJobs", jobs=[f"{owned.job}#1"]), "gang"),
    ("ListJobs", ""): _listed("ListJobs", jobQueue="front", jobStatus="RUNNABLE", kind="first"),
    ("ListJobs", "by name"): _listed(
        "ListJobs", jobQueue="front", kind="first", filters=[{"name": "JOB_NAME", "values": ["A*"]}]
    ),
    ("ListJobs", "by age"): _listed(
        "ListJobs", jobQueue="front", kind="first", filters=[{"name": "AFTER_CREATED_AT", "values": ["1"]}]
    ),
    ("ListJobs", "of an array"): _reach(
        lambda owned: batch("ListJobs", arrayJobId=owned.job, jobStatus="RUNNABLE"), "array"
    ),
    ("ListJobs", "of a gang"): _reach(
        lambda owned: batch("ListJobs", multiNodeJobId=owned.job, jobStatus="RUNNABLE"), "gang"
    ),
    ("ListGroups", ""): Row(
        cells=REACH,
        request=lambda _: Request(path="/v1/batchq/listgroups", body={}),
        kind="grouped",
        revealed=lambda owned: f'"{owned.job}"',
    ),
    ("ListMachines", ""): Row(
        cells=REACH,
        request=lambda _: Request(path="/v1/batchq/listmachines", body={"maxJobs": 20}),
        kind="running",
        revealed=lambda owned: f'"{owned.job}"',
    ),
    ("SubmitJob", "of a definition"): _use(
        lambda owned: batch("SubmitJob", jobName="x", jobQueue="still", jobDefinition=owned.definition)
    ),
    ("SubmitJob", "of a revision"): _use(
        lambda owned: batch("SubmitJob", jobName="x", jobQueue="still", jobDefinition=owned.ref)
    ),
    ("SubmitJob", "after a job"): _reach(lambda owned: _submit(owned, dependsOn=[{"jobId": owned.job}])),
    ("SubmitJob", "after a child"): _reach(
        lambda owned: _submit(owned, dependsOn=[{"jobId": f"{owned.job}:1"}]), "array"
    ),
    ("SubmitJob", "beside an array"): _reach(
        lambda owned: _submit(owned, arrayProperties={"size": 2}, dependsOn=[{"jobId": owned.job, "type": "N_TO_N"}]),
        "array",
    ),
    ("CancelJob", ""): _stop(lambda owned: batch("CancelJob", jobId=owned.job, reason=REASON)),
    ("CancelJobs", ""): _stop(lambda owned: batch("CancelJobs", jobs=[owned.job], reason=REASON)),
    ("TerminateJob", ""): _stop(lambda owned: batch("TerminateJob", jobId=owned.job, reason=REASON)),
    ("TerminateJobs", ""): _stop(lambda owned: batch("TerminateJobs", jobs=[owned.job], reason=REASON)),
    ("CancelJobsByFilter", ""): _stopping("canceljobs"),
    ("TerminateJobsByFilter", ""): _stopping("terminatejobs"),
    ("RegisterJobDefinition", ""): Row(
        cells=NAME,
        request=lambda owned: batch(
            "RegisterJobDefinition",
            jobDefinitionName=owned.definition,
            type="container",
            containerProperties=container("true"),
        ),
        revealed=lambda owned: f'"jobDefinitionName":"{owned.definition}"',
    ),
    ("DeregisterJobDefinition", ""): Row(
        cells=CHANGE,
        request=lambda owned: batch("DeregisterJobDefinition", jobDefinition=owned.ref),
        changes=True,
        seen=(_definition, '"status":"INACTIVE"'),
    ),
    ("DescribeJobDefinitions", ""): _use(_definition),
    ("DescribeJobDefinitions", "by name"): _use(
        lambda owned: batch("DescribeJobDefinitions", jobDefinitionName=owned.definition)
    ),
    ("DescribeJobDefinitions", "all"): _listed(
        "DescribeJobDefinitions", cells=USE, of=lambda owned: f'"{owned.definition}"', status="ACTIVE"
    ),
    ("GetJobQueueSnapshot", ""): _listed("GetJobQueueSnapshot", jobQueue="front", kind="first"),
    ("ListJobsByConsumableResource", ""): _listed(
        "ListJobsByConsumableResource", consumableResource=LICENCES, kind="licensed"
    ),
    **{(name, ""): _shared(name, SHARED) for name in _GROUND_ROWS},
    ("DescribeComputeEnvironments", ""): _shared("DescribeComputeEnvironments"),
    ("DescribeJobQueues", ""): _shared("DescribeJobQueues"),
    ("DescribeSchedulingPolicies", ""): _shared("DescribeSchedulingPolicies", arns=[]),
    ("ListSchedulingPolicies", ""): _shared("ListSchedulingPolicies"),
    ("DescribeConsumableResource", ""): _shared("DescribeConsumableResource", consumableResource=LICENCES),
    ("ListConsumableResources", ""): _shared("ListConsumableResources"),
    ("TagResource", "a job"): _reach(
        _tags(_job_arn, "POST", body={"tags": {"k": REASON}}), changes=True, seen=(_tags(_job_arn), REASON)
    ),
    ("TagResource", "a definition"): Row(
        cells=CHANGE,
        request=_tags(_definition_arn, "POST", body={"tags": {"k": REASON}}),
        changes=True,
        seen=(_tags(_definition_arn), REASON),
    ),
    ("TagResource", "a queue"): Row(cells=SHARED, request=_tags(_queue_arn, "POST", body={"tags": {"k": "v"}})),
    ("UntagResource", "a job"): _reach(_tags(_job_arn, "DELETE")),
    ("UntagResource", "a definition"): Row(cells=CHANGE, request=_tags(_definition_arn, "DELETE")),
    ("UntagResource", "a queue"): Row(cells=SHARED, request=_tags(_queue_arn, "DELETE")),
    ("ListTagsForResource", "of a job"): _reach(_tags(_job_arn)),
    ("ListTagsForResource", "of a definition"): _use(_tags(_definition_arn)),
    ("ListTagsForResource", "of a queue"): Row(cells=ALL, request=_tags(_queue_arn)),
    ("GetLogEvents", ""): _log("GetLogEvents", lambda owned: {"logStreamName": owned.stream}),
    ("FilterLogEvents", "by name"): _log("FilterLogEvents", lambda owned: {"logStreamNames": [owned.stream]}),
    ("FilterLogEvents", "by prefix"): _log("FilterLogEvents", lambda owned: {"logStreamNamePrefix": owned.definition}),
    ("FilterLogEvents", "all"): _log("FilterLogEvents", lambda _: {}, revealed=lambda owned: owned.stream),
    ("DescribeLogStreams", "by prefix"): _log(
        "DescribeLogStreams", lambda owned: {"logStreamNamePrefix": owned.stream}
    ),
    ("DescribeLogStreams", "all"): _log("DescribeLogStreams", lambda _: {}, revealed=lambda owned: owned.stream),
    ("DescribeLogStreams", "newest"): _log(
        "DescribeLogStreams",
        lambda _: {"orderBy": "LastEventTime", "descending": True},
        revealed=lambda owned: owned.stream,
    ),
    ("DescribeLogStreams", "of a training job"): _sagemaker_log("DescribeLogStreams"),
    ("FilterLogEvents", "of a training job"): _sagemaker_log("FilterLogEvents"),
    ("DescribeService", ""): Row(cells=ALL, request=lambda _: Request(path="/", method="GET")),
    ("DescribeLogGroups", ""): Row(cells=ALL, request=lambda _: logs("DescribeLogGroups")),
    ("GetJobHistory", ""): _get("/history"),
    ("GetJobLog", ""): _get("/log", "ran"),
    ("ExecJob", ""): _get("/exec"),
    ("ListEvents", "all"): _reach(
        lambda _: Request(path="/v1/batchq/events?after=0&limit=1000", method="GET"),
        "ran",
        revealed=lambda owned: owned.job,
    ),
    ("ListEvents", "of a job"): _reach(
        lambda owned: Request(path=f"/v1/batchq/events?after=0&jobs={owned.job}", method="GET"),
        revealed=lambda owned: owned.job,
    ),
    ("SearchJobs", ""): _search("still", {}),
    ("SearchJobs", "by id"): _reach(lambda owned: _found({"jobs": [owned.job]})),
    ("SearchJobs", "by the beginning of an id"): _reach(lambda owned: _found({"idPrefix": owned.job[:13]})),
    ("SearchJobs", "by name and definition"): _reach(
        lambda owned: _found({"jobNames": ["*-JOB"], "jobDefinitions": [owned.definition]})
    ),
    ("SearchJobs", "of an array"): _reach(lambda owned: _found({"parentId": owned.job}), "array"),
    ("SearchJobs", "with children"): _search(
        "still", {"children": True}, kind="array", of=lambda owned: f"{owned.job}:1"
    ),
    ("SearchJobs", "by end"): _search("default", {"orderBy": "ENDED"}, kind="ran"),
    ("ExplainJob", ""): _get("/why"),
    ("ExplainJob", "of a child"): _get(":1/why", "array"),
    ("ExplainJob", "of a gang"): _get("%231/why", "gang"),
    ("GetJob", ""): _get(""),
    ("GetJob", "of an array"): _get(":1", "array"),
    ("GetJob", "of a gang"): _get("%231", "gang"),
    ("GetJobCost", ""): _get("/cost"),
    ("GetJobCost", "of an array"): _get(":1/cost", "array"),
    ("GetJobMetrics", ""): _get("/metrics"),
    ("ReportCosts", ""): _native("costreport", ALL),
    ("ListBudgets", ""): _native("listbudgets", ACCOUNTS),
    ("SetBudget", ""): _native("setbudget", SHARED),
    ("RemoveBudget", ""): _native("removebudget", SHARED),
    ("CreateWebhook", ""): _native("createwebhook", ALL),
    ("ListWebhooks", ""): Row(
        cells=REACH,
        request=lambda _: Request(path="/v1/batchq/listwebhooks", body={}),
        kind="webhook",
        revealed=lambda owned: f'"{owned.job}"',
    ),
    ("UpdateWebhook", "state"): _webhook("updatewebhook", enabled=False),
    ("UpdateWebhook", "secret"): _webhook("updatewebhook", cells=OWN, rotateSecret=True),
    ("DeleteWebhook", ""): _webhook("deletewebhook"),
    ("TestWebhook", ""): _webhook("testwebhook"),
    ("RedeliverWebhook", ""): _webhook("redeliverwebhook"),
    ("CreateConsoleLogin", ""): _native("consolelogin", ALL),
    ("GetOverview", ""): _native("overview", ALL),
    ("GetActivity", ""): _native("activity", ALL),
    ("GetDefinitionUse", ""): _use(
        lambda owned: Request(path="/v1/batchq/definitionuse", body={"jobDefinition": owned.ref})
    ),
    ("ListAudit", "of a job"): _reach(lambda owned: Request(path="/v1/batchq/listaudit", body={"job": owned.job})),
    ("ListAudit", "all"): _reach(
        lambda _: Request(path="/v1/batchq/listaudit", body={"operation": "SubmitJob", "maxResults": 1000}),
        revealed=lambda owned: owned.job,
    ),
    **{
        (name, ""): _reach(_changed(name.removesuffix("Job").lower()), changes=True)
        for name in ("HoldJob", "ReleaseJob", "PauseJob", "ResumeJob")
    },
    ("ListCheckpoints", ""): _get("/checkpoints"),
    ("RequestCheckpoint", ""): _reach(_changed("checkpoints")),
    ("DeleteCheckpoint", ""): _reach(
        lambda owned: Request(path=f"/v1/batchq/jobs/{owned.job}/checkpoints/ckpt_{'0' * 12}", method="DELETE")
    ),
    ("DrainQueue", ""): _native("drainqueue", SHARED, queue="front", drained=False),
    ("ForceFail", ""): _native(f"jobs/{'0' * 8}-0000-4000-8000-{'0' * 12}/forcefail", DATA),
    ("LeaveSafeMode", ""): _native("leavesafemode", DATA),
    **{(name, ""): _native(name.lower(), cells) for name, cells in _PEOPLE_ROWS.items()},
    ("CreateTrainingJob", ""): Row(
        cells=ALL, request=lambda _: _training("", body={"name": "a-job", "image": "i", "queue": "still"})
    ),
    ("GetTrainingJob", ""): _get_training(""),
    ("GetTrainingJob", "of an array"): _get_training(":1", "array"),
    ("ListTrainingJobs", ""): _reach(lambda _: _training("?limit=100", method="GET"), revealed=lambda owned: owned.job),
    ("ListTrainingCheckpoints", ""): _get_training("/checkpoints"),
    ("GetTrainingCheckpoint", ""): _get_training("/checkpoints/ckpt_0"),
    ("CreateTrainingCheckpoint", ""): _reach(lambda owned: _training(f"/{owned.job}/checkpoints", body={})),
    ("DeleteTrainingCheckpoint", ""): _reach(
        lambda owned: _training(f"/{owned.job}/checkpoints/ckpt_0", method="DELETE")
    ),
    ("PauseTrainingJob", ""): _reach(
        lambda owned: _training(f"/{owned.job}/pause", body={"reason": REASON}), changes=True
    ),
    ("ResumeTrainingJob", ""): _reach(lambda owned: _training(f"/{owned.job}/resume", body={}), changes=True),
    ("SageMaker.CreateTrainingJob", ""): Row(
        cells=ALL, request=lambda owned: sagemaker("CreateTrainingJob", **training_job(owned.job))
    ),
    ("SageMaker.DescribeTrainingJob", ""): _sagemaker("DescribeTrainingJob"),
    ("SageMaker.ListTrainingJobs", ""): _reach(
        lambda owned: sagemaker("ListTrainingJobs", NameContains=owned.job),
        "sagemaker",
        revealed=lambda owned: owned.job,
    ),
    ("SageMaker.StopTrainingJob", ""): _sagemaker(
        "StopTrainingJob", changes=True, seen=(_described, '"TrainingJobStatus":"Stopped"')
    ),
    ("SageMaker.DeleteTrainingJob", ""): _sagemaker("DeleteTrainingJob"),
    ("ModelArts.CreateTrainingJob", ""): _open_modelarts("training-jobs", "POST", modelarts_job("a-job")),
    ("ModelArts.ShowTrainingJobDetails", ""): _modelarts(),
    ("ModelArts.StopTrainingJob", ""): _modelarts(
        "/actions",
        "POST",
        body={"action_type": "terminate"},
        changes=True,
        seen=(_describe, '"statusReason":"Terminated by'),
    ),
    ("ModelArts.DeleteTrainingJob", ""): _modelarts(method="DELETE"),
    ("ModelArts.ChangeTrainingJobDescription", ""): _modelarts(
        method="PUT", body={"description": REASON}, changes=True, seen=(_describe, REASON)
    ),
    ("ModelArts.ListTrainingJobs", ""): _reach(
        lambda _: Request(path=f"{MODELARTS}/training-job-searches", body={"limit": 50}),
        "modelarts",
        revealed=lambda owned: owned.job,
    ),
    ("ModelArts.ListTrainingJobEvents", ""): _modelarts("/events"),
    ("ModelArts.ListTrainingJobStages", ""): _modelarts("/stages"),
    ("ModelArts.ShowTrainingJobLogsPreview", ""): _modelarts("/tasks/worker-0/logs/preview", kind="ran"),
    ("ModelArts.ShowTrainingJobFlavors", ""): _open_modelarts("training-job-flavors"),
    ("ModelArts.ShowTrainingJobEngines", ""): _open_modelarts("training-job-engines"),
    ("CancelTrainingJob", ""): _stop(lambda owned: _training(f"/{owned.job}/cancel", body={"reason": REASON})),
}

"""The vendor's SDK for ModelArts training jobs: the calls on standard input, one after the other, and their outcomes.

A call is `[method, arguments]`; in the arguments `$id` is the id of the job that was created last. `["until", phases]`
shows that job until it is in one of the phases, and returns all phases seen; `["log", task]` reads its log.
"""

import json
import os
import sys
import time

from huaweicloudsdkcore.auth.credentials import BasicCredentials
from huaweicloudsdkcore.exceptions.exceptions import ServiceResponseException
from huaweicloudsdkcore.http.http_config import HttpConfig
from huaweicloudsdkcore.http.http_handler import HttpHandler
from huaweicloudsdkmodelarts import v1 as sdk

PATIENCE = 120  # seconds

TAMPER = os.environ.get("MODELARTS_TAMPER", "")


def change(request, **_):
    """Change a signed request before it is sent. It is a hook of the SDK."""
    if TAMPER == "body":
        request.body = request.body.replace(b"5", b"6")
    if TAMPER == "query":
        request.uri = request.uri.replace("limit=5", "limit=6")
    if TAMPER == "project":
        request.header_params["X-Project-Id"] = "another"
    if TAMPER == "date":
        request.header_params["X-Sdk-Date"] = "20260101T000000Z"


config = HttpConfig.get_default_config()
config.ssl_ca_cert = os.environ["AWS_CA_BUNDLE"]
credentials = BasicCredentials(
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["MODELARTS_PROJECT"]
)
client = (
    sdk.ModelArtsClient.new_builder()
    .with_http_config(config)
    .with_http_handler(HttpHandler().add_request_handler(change))
    .with_credentials(credentials)
    .with_endpoint(os.environ["AWS_ENDPOINT_URL"])
    .build()
)


def job(given):
    """The SDK's own models for a CreateTrainingJob request."""
    algorithm, resource = dict(given["algorithm"]), given["spec"]["resource"]
    algorithm["engine"] = sdk.JobEngine(**algorithm.get("engine", {}))
    algorithm["parameters"] = [sdk.Parameters(**parameter) for parameter in algorithm.get("parameters", [])]
    spec = sdk.Spec(resource=sdk.SpecResource(**resource))
    if "auto_stop" in given["spec"]:
        spec.auto_stop = sdk.AutoStop(**given["spec"]["auto_stop"])
    return sdk.Job(
        kind=given.get("kind", "job"),
        metadata=sdk.JobMetadata(**given["metadata"]),
        algorithm=sdk.JobAlgorithm(**algorithm),
        spec=spec,
    )


def searches(given):
    filters = [sdk.Filter(**members) for members in given.pop("filters", [])]
    return sdk.JobSearches(**given, filters=filters)


BODIES = {
    "create_training_job": job,
    "list_training_jobs": searches,
    "stop_training_job": lambda given: sdk.JobActionType(**given),
    "change_training_job_description": lambda given: sdk.JobUpdateRequestBody(**given),
}
last = ""


def call(method, arguments):
    """The answer of a method, as a dict, or the members of its error."""
    global last  # noqa: PLW0603 - a program, not a module
    arguments = {name: last if value == "$id" else value for name, value in arguments.items()}
    if "body" in arguments:
        arguments["body"] = BODIES[method](arguments["body"])
    request = getattr(sdk, "".join(part.capitalize() for part in method.split("_")) + "Request")(**arguments)
    try:
        answer = getattr(client, method)(request)
    except ServiceResponseException as error:
        members = ("status_code", "error_code", "error_msg", "request_id")
        return {"error": {name: getattr(error, name) for name in members}}
    content = answer.to_json_object()
    if method == "create_training_job":
        last = content["metadata"]["id"]
    return {"status": answer.status_code, "answer": content}


def until(phases):
    end, seen = time.monotonic() + PATIENCE, []
    while time.monotonic() < end:
        shown = call("show_training_job_details", {"training_job_id": last})["answer"]
        phase = [shown["status"]["phase"], shown["status"]["secondary_phase"]]
        if phase not in seen:
            seen.append(phase)
        if phase[0] in phases:
            return {"seen": seen, "answer": shown}
        time.sleep(0.1)
    raise TimeoutError(seen)


def log(task):
    """The first log of a task that is not empty."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        read = call("show_training_job_logs_preview", {"training_job_id": last, "task_id": task})
        if read["answer"].get("content"):
            return read
        time.sleep(0.1)
    raise TimeoutError(task)


STEPS = {"until": until, "log": log}
calls = json.load(sys.stdin)
print(
    json.dumps([STEPS[method](argument) if method in STEPS else call(method, argument) for method, argument in calls])
)

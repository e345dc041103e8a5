"""What the dialects for training jobs share: requests as submissions, folders of URIs, and spelt phases."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from batchq.api.training.common.training_jobs import BucketFolders, TrainingDialect, root_names
from batchq.api.training.common.training_request import (
    TrainingJobRequest,
    hyperparameter_variables,
    hyperparameters_file,
    unique_metric_rules,
)
from batchq.api.training.modelarts.job_document import FAILURES, PHASES
from batchq.api.training.rest import job_answers as rest
from batchq.api.training.sagemaker import job_document as sagemaker
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import PolicyName
from batchq.domain.job import RetryStrategy
from batchq.domain.task import DefinitionForm
from batchq.domain.training_jobs import ENDED, TrainingFailure, TrainingPhase
from batchq.errors import Forbidden, Invalid
from tests.support.builders import container, job, queue

ROOT = Path("/srv/s3")
FOLDERS = BucketFolders(ROOT, "s3://")
DIALECT = TrainingDialect("sketch")


def request(**members):
    required = {"container": container(), "retry": RetryStrategy(), "timeout": None, "tags": (), "returned": {}}
    return TrainingJobRequest(dialect=DIALECT, name="resnet", **required | members)


def test_a_request_is_submitted_with_the_document_of_its_dialect():
    sent = request(returned={"a": "é"}, digest="d").job_request

    assert (sent.definition_name, sent.queue, sent.name) == ("sketch", "default", "resnet")
    made = job(client_document=sent.client_document)
    assert (DIALECT.created(made), DIALECT.returned(made), DIALECT.request(made)) == (True, {"a": "é"}, "d")
    other = TrainingDialect("other")
    assert (other.created(made), other.returned(made), other.request(made)) == (False, {}, "")


def test_several_nodes_run_the_same_container_with_the_first_one_as_the_main_node():
    work = request(nodes=3).work

    assert (work.count, work.main, work.leading.spec) == (3, 0, request().work.leading.spec)
    assert (request().work.count, request().work.form) == (1, DefinitionForm.CONTAINER)


@pytest.mark.parametrize(
    ("policy", "account", "given", "expected"),
    [
        (None, "lab", 7, (None, 7)),
        ("fair", "lab", None, ("lab", 1)),
        ("fair", "la-b.2", 7, ("lab2", 7)),
        ("fair", "--", None, ("sketch", 1)),
    ],
)
def test_a_queue_with_a_policy_gets_the_account_as_share(policy, account, given, expected):
    caller = Caller(user="ada", account=account)

    found = request(priority=given).in_queue(queue(policy=policy and PolicyName(policy)), caller, priority=1)

    assert (found.share, found.priority) == expected


def test_a_copy_of_the_tag_of_a_deleted_job_deletes_no_other_job():
    first = job()
    deleted = replace(first, tags=(("sketch:deleted", first.id),))

    assert DIALECT.is_deleted(deleted)
    assert not DIALECT.is_deleted(job(tags=deleted.tags))


def test_hyperparameters_are_a_file_and_variables():
    given = {"lr": 0.1, "batch-size": "é"}

    assert hyperparameter_variables(given, "HP_") == {"HP_LR": "0.1", "HP_BATCH_SIZE": "é"}
    assert json.loads(hyperparameters_file(given).content) == given


def test_the_names_of_metrics_are_unique():
    (rule,) = unique_metric_rules(("loss", "loss=(.*)"))

    assert (rule.name, rule.regex) == ("loss", "loss=(.*)")
    assert unique_metric_rules(("loss", "a"), ("loss", "b")) is None


@pytest.mark.parametrize("path", ["bucket/a/b", "bucket/a/b/", "bucket//a/./b"])
def test_a_bucket_is_a_folder_below_the_root(path):
    assert FOLDERS.folder(path) == "/srv/s3/bucket/a/b"
    assert BucketFolders(None, "s3://").folder(path) is None


@pytest.mark.parametrize("path", ["", "/", "..", "b/../../etc", "b/a:b"])
def test_a_path_that_could_leave_the_root_has_no_folder(path):
    assert FOLDERS.folder(path) is None


def test_a_refusal_names_the_uri_and_no_path_of_the_server(tmp_path):
    (tmp_path / "link").symlink_to(ROOT)
    root_names(tmp_path / "link")  # as at the start of the server
    (tmp_path / "link").unlink()  # no link is read later: its file system may hang

    for root in (ROOT, tmp_path / "link"):
        with pytest.raises(Invalid) as refused, BucketFolders(root, "s3://").naming_uris():
            raise Invalid(f"Host path '{root}/lab/in' is not allowed, nor is '/srv/s3/lab/in'.")
        assert str(refused.value) == "Host path 's3://lab/in' is not allowed, nor is 's3://lab/in'."
    with pytest.raises(Forbidden, match="/srv/s3/a"), FOLDERS.naming_uris():
        raise Forbidden("/srv/s3/a")


SPELLINGS = """
CREATED        queued        Creating/Creating        InProgress/Pending
QUEUED         queued        Pending/Queuing          InProgress/Pending
PAUSED         paused        Pending/Queuing          InProgress/Pending
STARTING       initializing  Pending/Creating         InProgress/Downloading
PAUSING_START  pausing       Pending/Creating         InProgress/Downloading
RUNNING        running       Running/Running          InProgress/Training
PAUSING        pausing       Running/Running          InProgress/Training
STOPPING       cancelling    Terminating/Terminating  Stopping/Stopping
TIMING_OUT     running       Terminating/Terminating  Stopping/Stopping
COMPLETED      completed     Completed/Completed      Completed/Completed
STOPPED        cancelled     -                        Stopped/Stopped
TIMED_OUT      failed        -                        Stopped/MaxRuntimeExceeded
FAILED         failed        -                        Failed/Failed
"""


def test_each_dialect_spells_each_phase():
    rows = [
        (phase.name, rest.STATUSES[phase], "/".join(PHASES.get(phase, "-")), "/".join(sagemaker.STATUSES[phase]))
        for phase in TrainingPhase
    ]

    assert rows == [tuple(line.split()) for line in SPELLINGS.strip().splitlines()]
    assert set(TrainingPhase) - PHASES.keys() == ENDED - {TrainingPhase.COMPLETED}
    assert {kind.name: "/".join(FAILURES[kind]) for kind in TrainingFailure} == {
        "PROGRAM": "Failed/Failed",
        "ORDERED": "Terminated/Terminated",
        "NOT_STARTED": "Abnormal/CreateFailed",
        "LOST": "Abnormal/Lost",
        "FORCED": "Abnormal/TerminatedFailed",
    }

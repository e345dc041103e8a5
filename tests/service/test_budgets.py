"""Costs and budgets of a real server: the native API, SubmitJob's refusal, and `kill -9`."""

import pytest
from botocore.exceptions import ClientError

from tests.service.waiting import reaches, register, until
from tests.support.service import serving_forked

#: A job of one vCPU costs 1 EUR a second.
PRICES = 'currency = "EUR"\nvcpu_hour = 3600\n'
LONG = [{"name": "BATCHQ_SIMULATED", "value": '{"seconds": null, "on_term": 143}'}]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("budgets")
    prices = folder / "prices.toml"
    prices.write_text(PRICES)
    with serving_forked(folder / "data", "--runtime", "simulated", "--prices", str(prices)) as running:
        register(running.client(), "train", "true")
        yield running


def submit(service, **more):
    overrides = {"environment": LONG, "resourceRequirements": [{"type": "VCPU", "value": "1"}]}
    batch = service.client()
    return batch.submit_job(
        jobName="a", jobQueue="default", jobDefinition="train", containerOverrides=overrides, **more
    )["jobId"]


def test_a_crossed_budget_stops_the_jobs_and_survives_kill_nine(service):
    job = submit(service)
    reaches(service.client(), job, "RUNNING")

    status, budget = service.native("setbudget", {"account": "root", "hard": 0.5})
    assert (status, budget["currency"], budget["hard"], budget["period"]) == (200, "EUR", 0.5, "WHOLE")
    ended = reaches(service.client(), job, "FAILED")
    assert ended["statusReason"] == "The hard limit of the budget of account root is reached: 0.50 EUR"
    assert ended["isTerminated"]
    with pytest.raises(ClientError) as refused:
        submit(service)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert refused.value.response["Error"]["Code"] == "ClientException"
    assert "The budget of account root is used up: no job is accepted" in refused.value.response["Error"]["Message"]
    _, before = service.native("listbudgets", {})
    (crossing,) = before["budgets"][0]["crossings"]
    assert crossing["limit"] == "HARD"
    assert crossing["spent"] >= 0.5

    service.kill()
    service.start()

    assert service.native("listbudgets", {}) == (200, before)
    with pytest.raises(ClientError):
        submit(service)
    assert service.native("removebudget", {"account": "root"}) == (200, {})
    again = submit(service)
    reaches(service.client(), again, "RUNNING")
    service.client().terminate_job(jobId=again, reason="enough")
    reaches(service.client(), again, "FAILED")


def test_the_cost_of_a_job_and_the_report_agree(service):
    job = submit(service, tags={"batchq:metric:val": "(x)"})
    reaches(service.client(), job, "RUNNING")
    until(lambda: service.native(f"jobs/{job}/cost")[1]["cost"]["total"] > 0.2)
    service.client().terminate_job(jobId=job, reason="enough")
    reaches(service.client(), job, "FAILED")

    status, answer = service.native(f"jobs/{job}/cost")
    _, report = service.native("costreport", {"by": "DEFINITION"})

    assert status == 200
    assert set(answer["cost"]) == {"currency", "total", "gpu", "compute", "storage", "estimatedSavings"}
    (row,) = report["rows"]
    assert (row["name"], row["active"]) == ("train", 0)
    assert row["total"] >= answer["cost"]["total"]
    assert service.native(f"jobs/{job}/metrics") == (200, {"jobId": job, "metrics": {}})


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("setbudget", {}, 400),
        ("setbudget", {"account": "root"}, 400),
        ("setbudget", {"account": "root", "jobQueue": "default", "soft": 1}, 400),
        ("setbudget", {"account": "root", "soft": 2, "hard": 1}, 400),
        ("setbudget", {"account": "root", "soft": -1}, 400),
        ("setbudget", {"account": "root", "soft": "1"}, 400),
        ("setbudget", {"account": "root", "soft": 1, "period": "WEEK"}, 400),
        ("setbudget", {"account": "unknown", "soft": 1}, 404),
        ("setbudget", {"jobQueue": "nowhere", "soft": 1}, 404),
        ("removebudget", {"account": "root"}, 404),
        ("listbudgets", {"more": 1}, 400),
        ("costreport", {"by": "WEEK"}, 400),
        ("costreport", {"since": 2 * 10**12, "until": 10**12}, 400),
        ("costreport", {"since": 10**18}, 400),
        ("jobs/00000000-0000-4000-8000-000000000000/cost", None, 404),
        ("jobs/00000000-0000-4000-8000-000000000000/metrics", None, 404),
    ],
)
def test_a_bad_request_changes_nothing(service, path, body, status):
    found, answer = service.native(path, body)

    assert found == status
    assert answer["message"]
    assert service.native("listbudgets", {}) == (200, {"budgets": []})


def test_a_server_without_prices_sets_no_budget_and_knows_no_cost(tmp_path):
    with serving_forked(tmp_path / "data", "--runtime", "simulated") as service:
        register(service.client(), "train", "true")
        job = submit(service)

        assert service.native(f"jobs/{job}/cost") == (200, {"jobId": job, "cost": None})
        status, answer = service.native("setbudget", {"account": "root", "soft": 1})

        assert (status, answer["message"]) == (400, "The server has no prices: start it with --prices.")
        service.client().terminate_job(jobId=job, reason="enough")
        reaches(service.client(), job, "FAILED")

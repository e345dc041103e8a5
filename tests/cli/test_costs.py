"""`batchq cost` and `batchq budget`: requests and output."""

import re

import pytest

from tests.cli.responses import COST
from tests.cli.servers import batchq, ended
from tests.console.conftest import console_of

JOB = "5d1f6c1e-0000-4000-8000-000000000001"
ROW = {"name": "ada", "currency": "EUR", "total": 12.5, "gpu": 10.0, "compute": 2.5, "active": 1.25}
BUDGET = {
    "account": "lab",
    "currency": "EUR",
    "soft": 80.0,
    "period": "MONTH",
    "spent": 81.5,
    "setBy": "amy",
    "crossings": [{"limit": "SOFT", "at": 0, "spent": 80.1}],
}


@pytest.fixture
def costs(native):
    native.responses |= {
        f"/v1/batchq/jobs/{JOB}/cost": {"jobId": JOB, "cost": COST},
        "/v1/batchq/costreport": {"by": "USER", "since": 0, "until": 1, "rows": [ROW], "more": False},
        "/v1/batchq/listbudgets": {"budgets": [BUDGET]},
        "/v1/batchq/setbudget": BUDGET,
        "/v1/batchq/removebudget": {},
    }
    return native


async def test_the_cost_of_a_job_is_one_line(costs, capsys):
    assert await batchq("cost", JOB) == 0

    assert capsys.readouterr().out.splitlines() == [f"{JOB}\t3.42\tEUR\t3.10\t0.30\t0.02\t"]


async def test_a_job_without_prices_has_empty_amounts(costs, capsys):
    costs.responses[f"/v1/batchq/jobs/{JOB}/cost"] = {"jobId": JOB, "cost": None}

    assert await batchq("cost", JOB) == 0

    assert capsys.readouterr().out == f"{JOB}\t\t\t\t\t\t\n"


async def test_wait_and_show_print_the_cost_of_a_job_and_of_an_array(tmp_path, monkeypatch, capsys):
    (tmp_path / "prices.toml").write_text('currency = "EUR"\nvcpu_hour = 360000.0\n')
    async with console_of(tmp_path / "data", prices=tmp_path / "prices.toml") as console:
        monkeypatch.setenv("BATCHQ_URL", console.url)
        one = await console.run("train", script={"seconds": 0.1}, until="SUCCEEDED")
        two = await console.submit("sweep", script={"seconds": 0.1}, arrayProperties={"size": 2})
        for job in (one, two):
            assert await batchq("wait", job) == 0
            assert re.search(r"; \d+\.\d\d EUR", capsys.readouterr().err)
            assert await batchq("show", job) == 0
            assert re.search(r"^cost\t\d+\.\d\d EUR$", capsys.readouterr().out, re.MULTILINE)


async def test_a_report_has_a_line_for_each_group(costs, capsys):
    assert await batchq("cost", "--by", "user", "--since", "2026-11-01T00:00+00:00", "-o", "csv") == 0

    assert capsys.readouterr().out.splitlines() == [
        "USER,TOTAL,CURRENCY,GPU,COMPUTE,RUNNING",
        "ada,12.50,EUR,10.00,2.50,1.25",
    ]
    assert costs.requests == [("POST", "/v1/batchq/costreport", {"by": "USER", "since": 1793491200000})]


async def test_an_incomplete_report_says_so(costs, capsys):
    costs.responses["/v1/batchq/costreport"] |= {"more": True}

    assert await batchq("cost") == 0

    assert "not all costs are in this report" in capsys.readouterr().err


async def test_budgets_are_listed_with_what_is_spent(costs, capsys):
    assert await batchq("budget", "list") == 0

    assert capsys.readouterr().out.splitlines() == ["account lab\t81.50\t80.00\t\tEUR\tmonth\tsoft"]


async def test_a_budget_is_set_and_removed(costs, capsys):
    assert await batchq("budget", "set", "-A", "lab", "--soft", "80", "--period", "month") == 0
    assert await batchq("budget", "remove", "-q", "night") == 0

    assert capsys.readouterr().out.splitlines() == [
        "budget of account lab set: 81.50 EUR are spent",
        "budget of queue night removed",
    ]
    assert costs.requests == [
        ("POST", "/v1/batchq/setbudget", {"account": "lab", "soft": 80.0, "period": "MONTH"}),
        ("POST", "/v1/batchq/removebudget", {"jobQueue": "night"}),
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("cost", JOB, "--by", "user"),
        ("cost", "--by", "week"),
        ("budget", "set", "-A", "lab"),
        ("budget", "set", "--soft", "1"),
        ("budget", "set", "-A", "lab", "-q", "night", "--soft", "1"),
        ("budget", "set", "-A", "lab", "--soft", "nan"),
        ("budget", "set", "-A", "lab", "--soft", "-1"),
        ("budget",),
    ],
)
async def test_invalid_flags_send_no_request(costs, words):
    assert await ended(*words) == 2

    assert costs.requests == []

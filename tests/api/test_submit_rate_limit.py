"""SubmitJob above the rate limit of an account."""

from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory
from batchq.engine.account_limits import AccountPolicies, SubmitRateLimiter


async def test_submit_job_above_the_rate_limit_gets_the_error_of_aws(server, sleeper, http):
    slow = Directory(accounts={ROOT: Account(name=ROOT, parent=None, limits=AccountLimits(submits=0.01))})
    server.engine.submit_rate = SubmitRateLimiter(AccountPolicies(directory=lambda: slow, enforced=False), server.clock)
    asked = {"jobName": "a", "jobQueue": "default", "jobDefinition": sleeper}

    answers = [await http.post("SubmitJob", asked) for _ in range(2)]
    described = await http.post("DescribeJobs", {"jobs": [answers[0][2]["jobId"]]})

    assert [status for status, *_ in (*answers, described)] == [200, 429, 200]
    _, headers, body = answers[1]
    assert headers["x-amzn-ErrorType"] == "TooManyRequestsException"
    assert "Account root may submit 0.01 jobs per second" in body["message"]

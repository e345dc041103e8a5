"""evaluateOnExit, row by row, and the order of the decisions that end an attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from batchq.domain.enums import Action
from batchq.domain.job import ExitRule
from batchq.domain.lifecycle.status import Verdict, evaluate_on_exit, matches, verdict
from tests.support.builders import attempt, cancel, job, retry, stop
from tests.support.timing import little_cpu

RETRY, EXIT = Action.RETRY, Action.EXIT
ENDED = attempt(exit_code=137, reason="OutOfMemoryError: killed", status_reason="Host EC2 terminated")


def rule(action=EXIT, **fields):
    return ExitRule(action=action, **fields)


RULES = (rule(EXIT, on_exit_code="1"), rule(RETRY, on_exit_code="137"), rule(EXIT, on_exit_code="*"))
LOST_HOSTS_ONLY = (rule(RETRY, on_status_reason="Host EC2*"), rule(EXIT, on_reason="*"))  # AWS's documentation


@pytest.mark.parametrize(
    ("rules", "ended", "action"),
    [
        ((), ENDED, RETRY),
        ((rule(on_exit_code="1"), rule(on_reason="other")), ENDED, RETRY),
        ((rule(EXIT),), attempt(), EXIT),
        (RULES, ENDED, RETRY),
        (RULES[::-1], ENDED, EXIT),
        (LOST_HOSTS_ONLY, ENDED, RETRY),
        (LOST_HOSTS_ONLY, attempt(exit_code=1, status_reason="Essential container in task exited"), EXIT),
    ],
)
def test_the_first_rule_that_matches_decides_and_without_one_a_failure_is_retried(rules, ended, action):
    assert evaluate_on_exit(rules, ended) is action


@pytest.mark.parametrize(
    "conditions",
    [
        {"on_exit_code": "137"},
        {"on_exit_code": "13*"},
        {"on_exit_code": "*"},
        {"on_reason": "OutOfMemoryError: killed"},
        {"on_reason": "OutOfMemoryError*"},
        {"on_reason": "*"},
        {"on_status_reason": "Host EC2 terminated"},
        {"on_status_reason": "Host EC2*"},
        {"on_status_reason": "Host EC2 terminated*"},
        {"on_status_reason": "*"},
        {"on_status_reason": "Host EC2*", "on_reason": "OutOfMemoryError*", "on_exit_code": "137"},
    ],
)
def test_a_rule_matches_when_all_its_conditions_do(conditions):
    assert evaluate_on_exit((rule(EXIT, **conditions),), ENDED) is EXIT


@pytest.mark.parametrize(
    "conditions",
    [
        {"on_exit_code": "13"},
        {"on_exit_code": "1370"},
        {"on_exit_code": "37"},
        {"on_reason": "OutOfMemoryError"},
        {"on_reason": "killed"},
        {"on_reason": "killed*"},
        {"on_reason": "outofmemoryerror*"},
        {"on_status_reason": "Host EC2"},
        {"on_status_reason": "Host EC2 terminated!*"},
        {"on_status_reason": "OutOfMemoryError*"},
        {"on_reason": "Host EC2*"},
        {"on_status_reason": "Host EC2*", "on_reason": "OutOfMemoryError*", "on_exit_code": "1"},
        {"on_status_reason": "Host EC2*", "on_reason": "other", "on_exit_code": "137"},
        {"on_status_reason": "other", "on_reason": "OutOfMemoryError*", "on_exit_code": "137"},
    ],
)
def test_a_rule_does_not_match_when_one_of_its_conditions_does_not(conditions):
    assert evaluate_on_exit((rule(EXIT, **conditions),), ENDED) is RETRY


@pytest.mark.parametrize("conditions", ["on_exit_code", "on_reason", "on_status_reason"])
def test_an_absent_value_matches_a_single_star_only(conditions):
    nothing_known = attempt()

    assert evaluate_on_exit((rule(EXIT, **{conditions: "*"}),), nothing_known) is EXIT
    assert evaluate_on_exit((rule(EXIT, **{conditions: "1*"}),), nothing_known) is RETRY
    assert evaluate_on_exit((rule(EXIT, **{conditions: "None"}),), nothing_known) is RETRY


LITERALLY = some.text(some.sampled_from("*?[]().+^$|\\%_a"), max_size=40)


@pytest.mark.fault("SE18")
@given(LITERALLY, LITERALLY)
def test_only_a_trailing_star_is_a_wildcard(pattern, text):
    begins = pattern.endswith("*") and text.startswith(pattern[:-1])

    assert matches(rule(on_reason=pattern), attempt(reason=text)) == (begins or pattern == text)


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("pattern", ["(a+)+$", "a*" * 255 + "b*", "*" * 511, "(.*)*x*"])
def test_the_longest_pattern_matches_the_longest_reason_quickly(pattern):
    with little_cpu():
        assert not matches(rule(on_reason=pattern), attempt(reason="a" * 100_000))


STRICT, EAGER = retry(10, rule(EXIT, on_exit_code="137")), retry(3, rule(RETRY))


@pytest.mark.parametrize(
    ("job", "ended", "expected"),
    [
        (job(retry=STRICT), ENDED, Verdict.FAIL),
        (job(retry=EAGER), attempt(number=2, exit_code=1), Verdict.RETRY),
        (job(retry=EAGER), attempt(number=3, exit_code=1), Verdict.FAIL),
        (job(retry=EAGER), attempt(exit_code=0), Verdict.SUCCEED),
        (job(retry=EAGER), attempt(exit_code=None), Verdict.RETRY),
        (job(retry=EAGER), attempt(forbidden=True), Verdict.FAIL),
        (job(stop_orders=(cancel(),)), attempt(exit_code=0), Verdict.SUCCEED),
        (job(stop_orders=(cancel(""),), retry=EAGER), attempt(exit_code=1), Verdict.FAIL),
        (job(stop_orders=(stop(),), attempts=3), attempt(exit_code=0), Verdict.FAIL),
    ],
    ids=[
        "a rule ends the job",
        "an attempt is left",
        "no attempt is left",
        "exit code 0",
        "no exit code",
        "forbidden",
        "exit code 0 after a cancel",
        "a cancel",
        "exit code 0 after a stop order",
    ],
)
def test_the_verdict_on_an_ended_attempt(job, ended, expected):
    assert verdict(job, ended) is expected

"""evaluateOnExit, row by row, and the order of the decisions that end an attempt."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from batchq.domain.job import Action, ExitRule
from batchq.domain.lifecycle.status import Verdict, evaluate_on_exit, matches, verdict
from tests.support.builders import attempt, cancel, job, retry, stop
from tests.support.timing import little_cpu

RETRY, EXIT = Action.RETRY, Action.EXIT
ENDED = attempt(exit_code=137, reason="OutOfMemoryError: killed", status_reason="Host EC2 terminated")


def rule(action=EXIT, **fields):
    return ExitRule(action=action, **fields)


def test_without_rules_a_failure_is_retried():
    assert evaluate_on_exit((), ENDED) is RETRY


def test_a_failure_that_matches_no_rule_is_retried():
    assert evaluate_on_exit((rule(on_exit_code="1"), rule(on_reason="other")), ENDED) is RETRY


def test_the_first_rule_that_matches_decides():
    rules = (rule(EXIT, on_exit_code="1"), rule(RETRY, on_exit_code="137"), rule(EXIT, on_exit_code="*"))

    assert evaluate_on_exit(rules, ENDED) is RETRY
    assert evaluate_on_exit(rules[::-1], ENDED) is EXIT


def test_a_forbidden_container_is_not_retried_whatever_the_rules():
    again = job(retry=retry(10, rule(RETRY)))

    assert verdict(again, attempt(forbidden=True)) is Verdict.FAIL
    assert verdict(again, attempt()) is Verdict.RETRY


def test_a_rule_without_conditions_matches_everything():
    assert evaluate_on_exit((rule(EXIT),), attempt()) is EXIT


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


def test_the_rules_of_awss_documentation_retry_lost_hosts_only():
    recipe = (rule(RETRY, on_status_reason="Host EC2*"), rule(EXIT, on_reason="*"))

    assert evaluate_on_exit(recipe, ENDED) is RETRY
    assert evaluate_on_exit(recipe, attempt(exit_code=1, status_reason="Essential container in task exited")) is EXIT


def test_exit_prevents_further_attempts():
    strict = job(retry=retry(10, rule(EXIT, on_exit_code="137")))

    assert verdict(strict, ENDED) is Verdict.FAIL


def test_retry_adds_no_attempts():
    eager = job(retry=retry(2, rule(RETRY)))

    assert verdict(eager, attempt(number=1, exit_code=1)) is Verdict.RETRY
    assert verdict(eager, attempt(number=2, exit_code=1)) is Verdict.FAIL


def test_exit_0_succeeds_whatever_the_rules():
    assert verdict(job(retry=retry(3, rule(RETRY))), attempt(exit_code=0)) is Verdict.SUCCEED


def test_exit_0_of_a_job_with_a_remembered_cancel_succeeds():
    assert verdict(job(stop_orders=(cancel(),)), attempt(exit_code=0)) is Verdict.SUCCEED


def test_a_remembered_cancel_takes_precedence_over_the_rules():
    assert verdict(job(stop_orders=(cancel(""),), retry=retry(3, rule(RETRY))), attempt(exit_code=1)) is Verdict.FAIL


def test_a_stop_order_takes_precedence_over_exit_0():
    assert verdict(job(attempts=3, stop_orders=(stop(),)), attempt(exit_code=0)) is Verdict.FAIL


def test_an_end_without_an_exit_code_is_no_success():
    assert verdict(job(attempts=2), attempt(exit_code=None)) is Verdict.RETRY

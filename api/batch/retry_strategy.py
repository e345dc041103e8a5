"""retryStrategy and timeout of job definitions and jobs: shapes, the domain's values, and responses."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from batchq.api.batch.validation import Integer, Text, WireModel
from batchq.domain.enums import Action
from batchq.domain.job import ExitRule, RetryStrategy
from batchq.errors import Invalid

MAX_ATTEMPTS = 10
MAX_RULES = 5
_ACTIONS = frozenset(Action)
_TEXT = re.compile(r"[0-9A-Za-z.:\s]{0,511}\*?")
_CODE = re.compile(r"[0-9]{0,511}\*?")


class EvaluateOnExit(WireModel):
    """AWS: the action is case-insensitive."""

    action: Text
    onStatusReason: Text | None = None
    onReason: Text | None = None
    onExitCode: Text | None = None


class RetryStrategyShape(WireModel):
    attempts: Integer | None = None
    evaluateOnExit: list[EvaluateOnExit] | None = None


class JobTimeout(WireModel):
    attemptDurationSeconds: Integer | None = None


def to_retry(given: RetryStrategyShape | None) -> RetryStrategy | None:
    """None if it is omitted: the job definition's strategy, or one attempt, then applies. Raises Invalid."""
    if given is None:
        return None
    if given.attempts is None:
        raise Invalid("RetryAttempts must be provided with retry strategy")
    if not 1 <= given.attempts <= MAX_ATTEMPTS:
        raise Invalid(f"Retry attempts must be between 1 and {MAX_ATTEMPTS}.")
    rules = given.evaluateOnExit or []
    if len(rules) > MAX_RULES:
        raise Invalid(f"evaluateOnExit can have at most {MAX_RULES} entries.")
    return RetryStrategy(attempts=given.attempts, evaluate_on_exit=tuple(_rule(rule) for rule in rules))


def _rule(given: EvaluateOnExit) -> ExitRule:
    if given.action.upper() not in _ACTIONS:
        raise Invalid("The action of evaluateOnExit must be RETRY or EXIT.")
    return ExitRule(
        action=Action(given.action.upper()),
        on_status_reason=_pattern(given.onStatusReason, _TEXT, "onStatusReason"),
        on_reason=_pattern(given.onReason, _TEXT, "onReason"),
        on_exit_code=_pattern(given.onExitCode, _CODE, "onExitCode"),
    )


def _pattern(text: str | None, allowed: re.Pattern[str], member: str) -> str | None:
    """AWS: at most 512 characters, an asterisk only at the end. An empty pattern counts as omitted."""
    if not text:
        return None
    if not allowed.fullmatch(text):
        raise Invalid(f"{member} of evaluateOnExit has characters that are not allowed.")
    return text


def registered_retry(strategy: Mapping[str, Any]) -> dict[str, Any]:
    """The retryStrategy of a job definition's document, as DescribeJobDefinitions returns it."""
    rules = [{**rule, "action": rule["action"].lower()} for rule in strategy.get("evaluateOnExit", ())]
    return {**strategy, **({"evaluateOnExit": rules} if rules else {})}


def retry_to_wire(retry: RetryStrategy) -> dict[str, object]:
    return {"attempts": retry.attempts, "evaluateOnExit": [_rule_to_wire(rule) for rule in retry.evaluate_on_exit]}


def _rule_to_wire(rule: ExitRule) -> dict[str, str]:
    conditions = {
        "onStatusReason": rule.on_status_reason,
        "onReason": rule.on_reason,
        "onExitCode": rule.on_exit_code,
        "action": rule.action.value.lower(),  # AWS: returned in lower case, and clients compare it
    }
    return {member: value for member, value in conditions.items() if value is not None}


def to_timeout(given: JobTimeout | None, least: int) -> timedelta | None:
    """None if it is omitted. AWS: at least `least` (60) seconds, without a maximum. Raises Invalid."""
    seconds = None if given is None else given.attemptDurationSeconds
    if seconds is None:
        return None
    if seconds < least:
        raise Invalid(f"attemptDurationSeconds must be at least {least}.")
    return timedelta(seconds=seconds)

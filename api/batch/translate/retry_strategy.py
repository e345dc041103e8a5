"""retryStrategy: requests to the domain's values, and values to responses."""

import re
from collections.abc import Mapping
from typing import Any

from batchq.api.batch.wire.job_definitions import EvaluateOnExit, RetryStrategy
from batchq.domain.job import Action, ExitRule
from batchq.domain.job import RetryStrategy as Retry
from batchq.errors import Invalid

MOST_ATTEMPTS = 10
MOST_RULES = 5

_ACTIONS = frozenset(Action)
_TEXT = re.compile(r"[0-9A-Za-z.:\s]{0,511}\*?")
_CODE = re.compile(r"[0-9]{0,511}\*?")


def retry(given: RetryStrategy | None) -> Retry | None:
    """None if it is omitted: the job definition's strategy, or one attempt, then applies. Raises Invalid."""
    if given is None:
        return None
    if given.attempts is None:
        raise Invalid("RetryAttempts must be provided with retry strategy")
    if not 1 <= given.attempts <= MOST_ATTEMPTS:
        raise Invalid(f"Retry attempts must be between 1 and {MOST_ATTEMPTS}.")
    rules = given.evaluateOnExit or []
    if len(rules) > MOST_RULES:
        raise Invalid(f"evaluateOnExit can have at most {MOST_RULES} entries.")
    return Retry(attempts=given.attempts, evaluate_on_exit=tuple(_rule(rule) for rule in rules))


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


def registered(strategy: Mapping[str, Any]) -> dict[str, Any]:
    """The retryStrategy of a job definition's document, as DescribeJobDefinitions returns it."""
    rules = [{**rule, "action": rule["action"].lower()} for rule in strategy.get("evaluateOnExit", ())]
    return {**strategy, **({"evaluateOnExit": rules} if rules else {})}


def shown(retry: Retry) -> dict[str, object]:
    return {"attempts": retry.attempts, "evaluateOnExit": [_shown(rule) for rule in retry.evaluate_on_exit]}


def _shown(rule: ExitRule) -> dict[str, str]:
    conditions = {
        "onStatusReason": rule.on_status_reason,
        "onReason": rule.on_reason,
        "onExitCode": rule.on_exit_code,
        "action": rule.action.value.lower(),  # AWS: returned in lower case, and clients compare it
    }
    return {member: value for member, value in conditions.items() if value is not None}

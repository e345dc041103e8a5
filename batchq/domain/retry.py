"""After an attempt has ended: is the job done, and how, or does it try again? Pure."""

from enum import StrEnum

from batchq.domain.job import Action, Attempt, ExitRule, Job


class Verdict(StrEnum):
    SUCCEED = "SUCCEED"
    FAIL = "FAIL"
    AGAIN = "AGAIN"


def verdict(job: Job, ended: Attempt) -> Verdict:
    """The order of these questions is the contract: a stop order beats all, an exit 0 beats a remembered cancel."""
    if job.stop is not None:
        return Verdict.FAIL
    if ended.exit_code == 0:
        return Verdict.SUCCEED
    if job.cancelled is not None or ended.forbidden or ended.number >= job.spec.retry.attempts:
        return Verdict.FAIL
    return Verdict.AGAIN if evaluate(job.spec.retry.evaluate_on_exit, ended) is Action.RETRY else Verdict.FAIL


def evaluate(rules: tuple[ExitRule, ...], ended: Attempt) -> Action:
    """What the first matching entry says. AWS: when none matches, the job is retried."""
    return next((rule.action for rule in rules if matches(rule, ended)), Action.RETRY)


def matches(rule: ExitRule, ended: Attempt) -> bool:
    """Every condition that is given holds."""
    code = None if ended.exit_code is None else str(ended.exit_code)
    return (
        _like(rule.on_status_reason, ended.status_reason)
        and _like(rule.on_reason, ended.reason)
        and _like(rule.on_exit_code, code)
    )


def _like(pattern: str | None, text: str | None) -> bool:
    """A lone `*` also matches what is missing: AWS's documented catch-all is `onReason: "*"`."""
    if pattern is None or pattern == "*":
        return True
    if text is None:
        return False
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern

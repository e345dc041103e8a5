"""ExplainJob: why a job waits, what it does, or why it failed, in one sentence with figures. See docs/why.md."""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus

from msgspec import Struct
from msgspec.structs import asdict

from batchq.api.operation_table import JOB, Call, OperationTable
from batchq.domain.explanation.codes import Code, Explanation, Fact
from batchq.domain.times import milliseconds, optional_milliseconds
from batchq.services.explanations import ExplanationService


class ExplanationAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Why a job waits, what it does, or why it failed."""

    code: Code
    #: One or more sentences with figures. Names that the caller may not see are replaced.
    sentence: str
    #: Since when this is so, in milliseconds since 1970; absent if it is not known.
    since: int | None = None
    #: The figures of the sentence by name, as docs/why.md lists them for each code; times are in milliseconds.
    facts: dict[str, object]


class JobExplanationAnswer(ExplanationAnswer, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The explanation of one job."""

    job_id: str


operations = OperationTable[ExplanationService](not_found=HTTPStatus.NOT_FOUND)


@operations.add("ExplainJob", "GET", f"{JOB}/why")
async def explain_job(explanations: ExplanationService, call: Call[None]) -> JobExplanationAnswer:
    """Explains why a job waits, what it does, or why it failed.

    Programs compare `code` and read `facts`; the wording of `sentence` may change.
    """
    answer = explanation_answer(await explanations.why(call.job_id, caller=call.caller))
    return JobExplanationAnswer(job_id=call.job_id, **asdict(answer))


def explanation_answer(it: Explanation) -> ExplanationAnswer:
    """An explanation as a member of an answer."""
    facts = {name: _fact(value) for name, value in it.facts.items()}
    return ExplanationAnswer(code=it.code, sentence=it.sentence, since=optional_milliseconds(it.since), facts=facts)


def _fact(value: Fact) -> object:
    match value:
        case datetime():
            return milliseconds(value)
        case tuple():
            return [_fact(it) for it in value]
        case Mapping():
            return {name: _fact(it) for name, it in value.items()}
        case _:
            return value

"""ExplainJob: why a job waits, what it does, or why it failed, in one sentence with figures. See docs/why.md."""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus

from aiohttp import web
from msgspec import Struct

from batchq.api.authorization import authorize
from batchq.api.http import Dialect, HttpRefusal, milliseconds, reply
from batchq.api.openapi import OperationDoc, document
from batchq.domain.access.accounts import Permission
from batchq.domain.explanation.codes import Code, Explanation, Fact
from batchq.domain.ids import JobId
from batchq.errors import NotFound
from batchq.services.explanations import ExplanationService

NAME = "ExplainJob"
WHY = "/v1/batchq/jobs/{job:[0-9a-f:#-]{1,64}}/why"


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


_DOC = OperationDoc(
    name=NAME,
    summary="Explains why a job waits, what it does, or why it failed.",
    description="Programs compare `code` and read `facts`; the wording of `sentence` may change.",
    answer=JobExplanationAnswer,
)


def dialect(explanations: ExplanationService) -> Dialect:
    async def why(request: web.Request) -> web.Response:
        caller = authorize(request, Permission.SELF, NAME)
        job_id = JobId(request.match_info["job"])
        try:
            found = await explanations.why(job_id, caller=caller)
        except NotFound as error:
            raise HttpRefusal(str(error), status=HTTPStatus.NOT_FOUND) from None
        answer = explanation_answer(found)
        return reply(
            JobExplanationAnswer(
                job_id=job_id, code=answer.code, sentence=answer.sentence, since=answer.since, facts=answer.facts
            )
        )

    def mount(app: web.Application) -> None:
        document(app, app.router.add_get(WHY, why), _DOC)

    return mount


def explanation_answer(it: Explanation) -> ExplanationAnswer:
    """An explanation as a member of an answer."""
    facts = {name: _fact(value) for name, value in it.facts.items()}
    since = None if it.since is None else milliseconds(it.since)
    return ExplanationAnswer(code=it.code, sentence=it.sentence, since=since, facts=facts)


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

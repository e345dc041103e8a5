"""GetDefinitionUse: `POST /v1/batchq/definitionuse` tells what the newest jobs of a job definition used."""

from batchq.api.http.http import RequestBody, Word
from batchq.api.native.job_selection import bare_name
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission
from batchq.domain.ids import DefinitionRef
from batchq.domain.job_selection import JobSelection
from batchq.domain.use import MEASURED_JOBS, Spread, definition_use
from batchq.errors import Invalid, NotFound
from batchq.ports.job_search import PageQuery
from batchq.ports.responses.definitions import DefinitionUseResponse, SpreadResponse

operations = OperationTable()


class GetDefinitionUseRequest(RequestBody):
    """The revision."""

    #: `NAME:REVISION`, or its ARN.
    job_definition: Word


@operations.add("GetDefinitionUse", "POST", "/v1/batchq/definitionuse", Permission.SELF)
async def get_definition_use(parts: Parts, call: Call[GetDefinitionUseRequest]) -> DefinitionUseResponse:
    """Tells what the attempts of the last 100 jobs of a job definition used.

    Only jobs that the caller may see are counted. The advice is a smaller request of memory.
    """
    ref = DefinitionRef.parse(bare_name(call.input.job_definition))
    if ref is None:
        raise Invalid("'jobDefinition' must be NAME:REVISION.")
    definition = await parts.catalog.definitions.get_visible(ref, caller=call.caller)
    if definition is None:
        raise NotFound(f"JobDefinition {ref} not found.")
    query = PageQuery(selection=JobSelection(definitions=frozenset({str(ref)})), limit=MEASURED_JOBS)
    page = await parts.search.search(query, caller=call.caller)
    uses = (attempt.use for job in page.jobs for attempt in job.attempts)
    used = definition_use(uses, definition.nodes.resources.memory_mib)
    return DefinitionUseResponse(
        job_definition=str(ref),
        measured_attempts=used.attempts,
        memory_mib=used.memory_mib,
        cpu_seconds=_spread(used.cpu_seconds),
        peak_memory_bytes=_spread(used.peak_memory),
        working_set_bytes=_spread(used.working_set),
        advice=used.advice,
    )


def _spread(found: Spread | None) -> SpreadResponse | None:
    return None if found is None else SpreadResponse(median=found.median, p95=found.p95, most=found.most)

"""What the pages of submissions need of AWS Batch's operations: the server calls them inside its process."""

from collections.abc import Mapping
from typing import Any, Protocol

from batchq.domain.access.accounts import Caller


class BatchCalls(Protocol):
    """AWS Batch's operations on jobs and job definitions, by the name of the operation, with JSON."""

    async def call(
        self, operation: str, content: Mapping[str, object], *, caller: Caller, invocation: str = ""
    ) -> Mapping[str, Any]:
        """The answer. A SubmitJob that is repeated with the same `invocation` creates one job. Raises its errors."""

    async def check_submission(
        self, content: Mapping[str, object], *, definition: Mapping[str, object] | None, caller: Caller
    ) -> None:
        """Raise the errors of SubmitJob, without a change.

        `definition`: the RegisterJobDefinition request for a definition that is not registered; None: it is.
        """

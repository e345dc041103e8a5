"""The files of the data directory as the backend of the commands on accounts, users and keys."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from pydantic import ValidationError

from batchq.accounts.admin import AccountAdmin
from batchq.accounts.files import machine_user
from batchq.accounts.operations import OPERATIONS
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Role
from batchq.errors import Invalid
from batchq.system.clock import wall_time
from batchq.system.private_file import rights_of_owner

Answer = TypeVar("Answer", bound=Struct)


def perform_on_files(data: Path, name: str, content: Mapping[str, object], *, answer: type[Answer]) -> Answer:
    """Perform an operation of `OPERATIONS` on the files and return its response. Raises Invalid and Unavailable."""
    operation = OPERATIONS[name]
    caller = Caller(user=machine_user(), role=Role.ADMIN, operation=name)
    try:
        request = operation.request.model_validate_json(json.dumps(content))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        raise Invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    with rights_of_owner(data):
        response = operation.perform(AccountAdmin(data, now=wall_time), request, caller)
    assert isinstance(response, answer), f"{name} returns {answer.__name__}"
    return response

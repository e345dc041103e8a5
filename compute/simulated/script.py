"""What a simulated container does, and how a job says so: in its environment variable BATCHQ_SIMULATED.

The variable holds a JSON object of the members below, or a list of such objects, one for each attempt in turn; the last
one serves for all that follow. BATCHQ_SIMULATED_7 is for child 7 of an array, the other for those that have none of
their own. A job without it runs for a second and exits 0.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

VARIABLE = "BATCHQ_SIMULATED"

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Code = Annotated[int, Field(ge=0, le=255)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All times in seconds.

    It ends by itself after `seconds` (None: never), with `exit_code`. At a stop signal it ends `term_delay` later with
    `on_term`; where that is None it is deaf. Killed, it is dead `kill_delay` later. At its beginning it writes the
    lines of `output` and the values of the variables in `prints_environment`. A start of it takes `start_delay`, and is
    refused with the text `refuse`: always, or as many times as `refusals` says; as something that may pass, unless
    `refuse_certain`.
    """

    seconds: Seconds | None = 1.0
    exit_code: Code = 0
    out_of_memory: bool = False
    on_term: Code | None = None
    term_delay: Seconds = 0.0
    kill_delay: Seconds = 0.0
    output: tuple[str, ...] = ()
    prints_environment: tuple[str, ...] = ()
    start_delay: Seconds = 0.0
    refuse: str | None = None
    refusals: int | None = None
    refuse_certain: bool = True

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


_USUAL = asdict(Script())
_READER: TypeAdapter[Script | list[Script]] = TypeAdapter(Script | Annotated[list[Script], Field(min_length=1)])


def read(environment: Mapping[str, str], attempt: int) -> Script:
    """The script of an attempt. Raises ValueError, with the reason in one line."""
    index = environment.get("AWS_BATCH_JOB_ARRAY_INDEX", "")
    text = environment.get(f"{VARIABLE}_{index}", environment.get(VARIABLE))
    if text is None:
        return Script()
    try:
        scripts = _scripts(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"{VARIABLE}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    return scripts if isinstance(scripts, Script) else scripts[min(attempt, len(scripts)) - 1]


@lru_cache(maxsize=64)
def _scripts(text: str) -> Script | list[Script]:
    return _READER.validate_json(text)


def write(*scripts: Script, child: int | None = None) -> tuple[str, str]:
    """The environment variable that says so, name and value."""
    told = [
        {name: it for name, usual in _USUAL.items() if (it := getattr(script, name)) != usual} for script in scripts
    ]
    return VARIABLE if child is None else f"{VARIABLE}_{child}", json.dumps(told)

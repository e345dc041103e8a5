"""The script of a simulated container, which the job sets in its environment variable BATCHQ_SIMULATED.

The variable holds a JSON object with the members of `Script`, or a list of such objects, one for each attempt; the last
one also applies to all later attempts. BATCHQ_SIMULATED_7 is the script of child 7 of an array; children without their
own variable use BATCHQ_SIMULATED. A job without a variable has the script of its name in `Outcomes`; otherwise the job
runs for a second and exits 0.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.json import Decoder, encode

VARIABLE = "BATCHQ_SIMULATED"

Seconds = Annotated[float, Meta(ge=0)]
ExitCode = Annotated[int, Meta(ge=0, le=255)]


class Script(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The behaviour of a simulated container. All times are in seconds."""

    #: Time from its start until it exits by itself; None: it never does.
    seconds: Seconds | None = 1.0
    #: The exit code if it exits by itself.
    exit_code: ExitCode = 0
    #: Whether its exit is reported as an out-of-memory kill.
    out_of_memory: bool = False
    #: How many CPUs it keeps busy; None: not measured.
    cpus: Annotated[float, Meta(ge=0)] | None = None
    #: The most memory that it uses, in MiB; None: not measured.
    memory_mib: Annotated[int, Meta(ge=0)] | None = None
    #: What it writes into its failure file before it exits by itself; None: nothing.
    failure: str | None = None
    #: The exit code after a stop signal; None: it ignores the signal.
    on_term: ExitCode | None = None
    #: Time from the stop signal until it exits.
    term_delay: Seconds = 0.0
    #: Time from a kill until it is dead.
    kill_delay: Seconds = 0.0
    #: The names of the checkpoints that it writes when it starts.
    checkpoints: tuple[str, ...] = ()
    #: The name of the checkpoint that it writes after a checkpoint signal; None: none.
    on_request: str | None = None
    #: Time from a checkpoint signal until the checkpoint is written.
    request_delay: Seconds = 0.0
    #: The exit code after a checkpoint signal and its checkpoint; None: it continues.
    request_exit: ExitCode | None = None
    #: The name of the checkpoint that it writes after a stop signal, just before it exits; None: none.
    term_checkpoint: str | None = None
    #: Lines that it writes when it starts.
    output: tuple[str, ...] = ()
    #: Lines that a command of `exec` writes.
    exec_output: tuple[str, ...] = ()
    #: The exit code of a command of `exec`.
    exec_exit_code: ExitCode = 0
    #: Whether a command of `exec` writes its input back, and runs until its input ends.
    exec_echoes: bool = False
    #: Names of environment variables whose values it writes when it starts.
    prints_environment: tuple[str, ...] = ()
    #: The duration of a start.
    start_delay: Seconds = 0.0
    #: Time from the accepted start until the program runs: the engine pulls the image itself.
    pull_delay: Seconds = 0.0
    #: The text with which its start is refused; None: it is not refused.
    refuse: str | None = None
    #: The number of starts that are refused before one succeeds; None: all starts are refused.
    refusals: int | None = None
    #: Whether a refusal is final; if not, the engine may try the start again.
    refuse_certain: bool = True

    @property
    def is_measured(self) -> bool:
        """Whether it chooses what the container uses."""
        return self.cpus is not None or self.memory_mib is not None


_DECODER: Decoder[Script | list[Script]] = Decoder(Script | Annotated[list[Script], Meta(min_length=1)])


Outcomes = Mapping[str, Sequence[Script]]
"""The scripts of jobs without a variable, one for each attempt, by patterns of job names. The last match applies."""
NO_OUTCOMES: Outcomes = MappingProxyType({})


def read(environment: Mapping[str, str], attempt: int, *, job_name: str, outcomes: Outcomes) -> Script:
    """The script of an attempt. Raises ValueError, with the reason in one line."""
    index = environment.get("AWS_BATCH_JOB_ARRAY_INDEX", "")
    text = environment.get(f"{VARIABLE}_{index}", environment.get(VARIABLE))
    if text is None:
        matching = [scripts for pattern, scripts in outcomes.items() if fnmatchcase(job_name, pattern)]
        return _of_attempt(matching[-1], attempt) if matching else Script()
    try:
        scripts = _scripts(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: {error}") from error
    return scripts if isinstance(scripts, Script) else _of_attempt(scripts, attempt)


def _of_attempt(scripts: Sequence[Script], attempt: int) -> Script:
    return scripts[min(attempt, len(scripts)) - 1]


@lru_cache(maxsize=64)
def _scripts(text: str) -> Script | list[Script]:
    return _DECODER.decode(text)


def script_variable(*scripts: Script, child: int | None = None) -> tuple[str, str]:
    """The name and the value of the environment variable that holds these scripts."""
    return VARIABLE if child is None else f"{VARIABLE}_{child}", encode(scripts).decode()

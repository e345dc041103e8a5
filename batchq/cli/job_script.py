"""Job scripts: `batchq submit SCRIPT.sh`. Lines `#BATCHQ` are flags, and the script's text is the job's command."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from batchq.errors import Misused

MARK = "#BATCHQ"
DEFAULT_INTERPRETER = "sh"
_INTERPRETERS = re.compile(r"(?:ba|da|k|z|a)?sh|python[\d.]*")  # that take the program as text by -c
_SHEBANG = re.compile(r"#!\s*(\S+)(?:\s+(.*))?")
_ENV = "env"


class JobScript(Struct, frozen=True, kw_only=True):
    """A script that is submitted as a job's command."""

    file: Path
    text: str
    #: The words of its #BATCHQ lines.
    flags: tuple[str, ...]
    #: The program that runs it, with its arguments: from the first line, else sh.
    interpreter: tuple[str, ...]

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The job's command: the interpreter, the text, and the arguments, which the script has as `$1`, `$2`.

        A shell gets the file's name as `$0`. Python has no such argument.
        """
        name = () if "python" in self.interpreter[0] else (self.file.name,)
        return [*self.interpreter, "-c", self.text, *name, *arguments]


def is_script(target: str) -> bool:
    """Whether the argument of `submit` names a script and not an image: it begins with / or ., or ends with .sh."""
    return target.startswith(("/", ".")) or target.endswith((".sh", ".bash", ".py"))


def read_script(file: Path) -> JobScript:
    """Read a script. Raises Misused for a file that is not readable, and for an interpreter without `-c`."""
    try:
        text = file.read_text()
    except (OSError, ValueError) as why:
        raise Misused(f"cannot read the script {file}: {getattr(why, 'strerror', None) or 'it is not text'}") from None
    return JobScript(file=file, text=text, flags=_flags(text, file), interpreter=_interpreter(text, file))


def _flags(text: str, file: Path) -> tuple[str, ...]:
    """The words of the #BATCHQ lines. They end at the first line that is neither empty nor a comment."""
    words: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            break
        if line.partition(" ")[0] == MARK:
            words += _split(line.removeprefix(MARK), f"{file}, line {number}")
    return tuple(words)


def _split(flags: str, place: str) -> list[str]:
    try:
        words = shlex.split(flags, comments=True)
    except ValueError as why:
        raise Misused(f"{place}: {why}") from None
    if "--" in words:
        raise Misused(f"{place}: the script is the command; -- cannot be used in a {MARK} line")
    return words


def _interpreter(text: str, file: Path) -> tuple[str, ...]:
    shebang = _SHEBANG.match(text.partition("\n")[0])
    if shebang is None:
        return ("python3",) if file.suffix == ".py" else (DEFAULT_INTERPRETER,)
    program, arguments = shebang[1], (shebang[2] or "").split()
    if program.rpartition("/")[2] == _ENV and arguments and not arguments[0].startswith("-"):
        program, *arguments = arguments
    if not _INTERPRETERS.fullmatch(program.rpartition("/")[2]):
        raise Misused(f"{file}: scripts of {program} cannot be submitted, only those of a shell or Python")
    return (program, *arguments)

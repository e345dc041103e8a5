"""Makes the man pages and completions of the wheel, from the table of commands: `python -m tests.docs.man_pages`.

There is a page for `batchq` and one for each command, with its subcommands.
"""

import re
from argparse import RawDescriptionHelpFormatter
from functools import partial
from pathlib import Path

from argcomplete.shell_integration import shellcode

from batchq import __version__
from batchq.cli.command_table import COMMANDS, TOPICS
from batchq.cli.main import parser, subparsers_of
from batchq.cli.output import EXIT_STATUSES
from tests.docs.commands import flags_of

FOLDER = Path(__file__).parents[2] / "packaging"
SHELLS = {"bash": "bash/batchq", "zsh": "zsh/_batchq", "fish": "fish/batchq.fish"}
UNLIMITED = 10_000  # columns of a usage, which man breaks into lines
STATUS = re.compile(r"  (.+?)(?:: |  +)(.+)")


def files():
    """The text of each file, by its path in the folder."""
    pages = {"batchq": main_page()} | {f"batchq-{name}": page(name) for name in COMMANDS}
    scripts = {f"completions/{path}": shellcode(["batchq"], shell=shell) for shell, path in SHELLS.items()}
    return {f"man/{name}.1": text for name, text in pages.items()} | scripts


def kept():
    """The text of each file in the folder."""
    written = [path for name in ("man", "completions") for path in (FOLDER / name).rglob("*") if path.is_file()]
    return {str(path.relative_to(FOLDER)): path.read_text() for path in written}


def main_page():
    lines = [*head("batchq", "a self-hosted AWS Batch"), ".SH SYNOPSIS", r".B batchq \fICOMMAND\fR [flags]"]
    lines += [".SH DESCRIPTION", escaped("Runs jobs as Docker containers of this machine, with the API of AWS Batch.")]
    for topic, commands in TOPICS.items():
        lines.append(f".SS {topic[0].upper()}{topic[1:]}")
        for name, command in commands.items():
            lines += [".TP", f".BR batchq\\-{escaped(name)} (1)", escaped(command.summary)]
    lines += [".SH EXIT STATUS"]
    for text in EXIT_STATUSES.splitlines()[1:]:
        status, meaning = STATUS.fullmatch(f"  {text.strip()}").groups()
        lines += [".TP", f".B {escaped(status)}", escaped(meaning)]
    return "\n".join(lines) + "\n"


def page(name):
    command = subparsers_of(parser())[name]
    command.declare()
    lines = head(f"batchq-{name}", COMMANDS[name].summary)
    lines += [".SH SYNOPSIS", f".B {usage(command)}", ".SH DESCRIPTION", *paragraphs(command.description)]
    if own := options(command):
        lines += [".SH OPTIONS", *own]
    for word, each in subparsers_of(command).items():
        lines += [f".SH {escaped(f'batchq {name} {word}'.upper())}", f".B {usage(each)}", ".PP"]
        lines += [*paragraphs(each.description), *options(each)]
    return "\n".join([*lines, ".SH SEE ALSO", ".BR batchq (1)"]) + "\n"


def head(name, summary):
    title = f'.TH {escaped(name.upper())} 1 "" "batchq {__version__}" "batchq"'
    return [title, ".SH NAME", f"{escaped(name)} \\- {escaped(summary)}"]


def usage(command):
    command.formatter_class = partial(RawDescriptionHelpFormatter, width=UNLIMITED)
    return escaped(" ".join(command.format_usage().removeprefix("usage: ").split()))


def options(command):
    """The arguments of a command; its subcommands have their own."""
    found = [] if subparsers_of(command) else flags_of(command)
    return [line for names, text in found for line in (".TP", f".B {escaped(', '.join(names))}", escaped(text))]


def paragraphs(description):
    """The lines of a description; indented ones are examples, which man leaves as they are."""
    lines, in_example = [], False
    for line in (description or "").splitlines():
        is_example = line.startswith("  ") or (in_example and not line.strip())
        if is_example != in_example:
            lines += [".PP", ".nf", ".RS"] if is_example else [".RE", ".fi"]
        in_example = is_example
        lines.append(escaped(line.strip()) if line.strip() else ".PP")
    return [*lines, *([".RE", ".fi"] if in_example else [])]


def escaped(text):
    """The text as roff prints it: hyphens that can be copied, no escapes, no requests."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    now, before = files(), kept()
    for name in before.keys() - now.keys():
        (FOLDER / name).unlink()
    for name, text in now.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text)

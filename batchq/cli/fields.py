"""Output of one resource: a line for each field, which is never cut."""

from collections.abc import Iterator, Mapping

from batchq.cli.output import escape, write_line
from batchq.cli.terminal import is_terminal, paint

LABEL_WIDTH = 13

#: A label and a value.
Field = tuple[str, str]


def print_fields(fields: Iterator[Field] | list[Field], *, color: bool) -> None:
    """Print each field: with aligned values on a terminal, with a TAB between label and value in a pipe."""
    fields = list(fields)
    width = max(LABEL_WIDTH, *(len(label) for label, _ in fields)) if fields else LABEL_WIDTH
    for label, text in fields:
        if is_terminal():
            write_line(f"  {paint(label.ljust(width), 'dim' if color else '')} {escape(text)}", flush=False)
        else:
            write_line(f"{label}\t{escape(text)}", flush=False)


def flattened(content: Mapping[str, object], path: str = "") -> Iterator[Field]:
    """The members of a JSON object as fields, with the path to each as the label: `computeResources.maxvCpus`.

    Empty lists and objects are left out.
    """
    for member, value in content.items():
        yield from _flattened(value, f"{path}.{member}" if path else member)


def _flattened(value: object, path: str) -> Iterator[Field]:
    if value in ([], {}):
        return
    if isinstance(value, Mapping):
        yield from flattened(value, path)
    elif isinstance(value, list) and any(isinstance(it, Mapping | list) for it in value):
        for number, it in enumerate(value):
            yield from _flattened(it, f"{path}[{number}]")
    elif isinstance(value, list):
        yield path, " ".join(map(str, value))
    else:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)

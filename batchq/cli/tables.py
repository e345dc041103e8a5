"""Output of a list: a table on a terminal, lines with TABs in a pipe, or JSON.

A table is cut to the width of the terminal, and its times are relative. In a pipe nothing is cut, ids are complete, and
times are in ISO 8601 with the offset of the local time zone. A single resource is printed as a line for each field.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from msgspec import Struct, to_builtins

from batchq.cli.output import is_terminal, paint, uses_color, write_line
from batchq.cli.quantities import ago, clock_time, iso_text, local_time
from batchq.errors import UsageError
from batchq.system.escapes import escape

Row = TypeVar("Row")
LABEL_WIDTH = 13
#: A label and a value.
Field = tuple[str, str]


class Column(Struct, Generic[Row], frozen=True, kw_only=True):
    """A column of a list of rows of one type."""

    #: The header.
    title: str
    #: The complete value of a row, for a pipe; empty if the row has none.
    full: Callable[[Row], str]
    #: The value of a row for a terminal; None: the complete one.
    short: Callable[[Row], str] | None = None
    #: The name of the value's colour; None: the terminal's own.
    style: Callable[[Row], str] | None = None
    #: Whether the column is narrowed where the table is wider than the terminal.
    elastic: bool = False
    #: Whether the values are aligned to the right.
    right: bool = False


def text_column(
    title: str, read: Callable[[Row], object], *, elastic: bool = False, right: bool = False
) -> Column[Row]:
    """A column of the values that `read` returns; empty for None."""

    def text(row: Row) -> str:
        value = read(row)
        return "" if value is None else str(value)

    return Column(title=title, full=text, elastic=elastic, right=right)


def time_column(title: str, read: Callable[[Row], int | None], *, present: datetime | None = None) -> Column[Row]:
    """A column of times in milliseconds. On a terminal they are relative to `present`; None: times of the clock."""

    def short(row: Row) -> str:
        at = local_time(read(row))
        return clock_time(at) if present is None else ago(at, present)

    return Column(title=title, full=lambda row: iso_text(local_time(read(row))), short=short)


def add_parser(
    subcommands: Any,  # noqa: ANN401 - argparse's
    name: str,
    summary: str,
    run: Callable[[Namespace], int],
    *,
    prints_list: bool = False,
) -> ArgumentParser:
    """Add a subcommand. `prints_list`: with the flags of a list."""
    command: ArgumentParser = subcommands.add_parser(name, help=summary, description=summary)
    command.set_defaults(run=run)
    if prints_list:
        add_output_flags(command)
    return command


def add_output_flags(command: ArgumentParser) -> None:
    """Declare the flags that the functions of this module read."""
    group = add_json_flags(command)
    group.add_argument("--header", action="store_true", help="print the titles of the columns into a pipe, too")
    add_color_flag(group)


def add_json_flags(command: ArgumentParser) -> Any:  # noqa: ANN401 - argparse's own
    """Declare the flags that `prints_json` and `print_json` read; returns their group."""
    group = command.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print the server's response as JSON")
    group.add_argument(
        "--query", type=_query, metavar="JMESPATH", help="print the result of this JMESPath expression as JSON"
    )
    return group


def add_color_flag(command: Any) -> None:  # noqa: ANN401 - a parser, or a group of argparse's
    """Declare `--color`."""
    text = "colours: auto (on a terminal; NO_COLOR and FORCE_COLOR decide before), always or never"
    command.add_argument("--color", choices=["auto", "always", "never"], default="auto", help=text)


def prints_json(args: Namespace) -> bool:
    """Whether the flags ask for JSON."""
    return bool(args.json or args.query)


def print_json(args: Namespace, response: object) -> None:
    """Print the response, or what `--query` selects from it, as JSON."""
    document = json_of(response)
    write_line(json.dumps(args.query(document) if args.query else document, indent=2))


def json_of(response: object) -> Any:  # noqa: ANN401 - any JSON
    """The JSON of a response as lists and objects, as `json.loads` returns it."""
    return json.loads(json.dumps(to_builtins(response)))


def print_list(args: Namespace, response: object, rows: Sequence[Row], columns: Sequence[Column[Row]]) -> None:
    """Print the rows in the form that the flags and stdout require; as JSON, the whole response."""
    if prints_json(args):
        print_json(args, response)
    elif is_terminal():
        print_rows(rows, columns, color=uses_color(args.color))
    else:
        print_lines(rows, columns, header=args.header, color=uses_color(args.color))


def print_rows(rows: Sequence[Row], columns: Sequence[Column[Row]], *, color: bool) -> None:
    """Print a table of the terminal's width: elastic columns are narrowed, and cut values end with an ellipsis.

    Without a row nothing is printed.
    """
    if not rows:
        return
    # Importing rich takes longer than a request, and pipes do not need it.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def value(column: Column[Row], row: Row) -> Text:
        style = column.style(row) if column.style else ""
        return Text(escape((column.short or column.full)(row)), style=style, no_wrap=True, overflow="ellipsis", end="")

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if color else "")
    for other_column in columns:
        title = Text(other_column.title, no_wrap=True, overflow="ellipsis")
        table.add_column(
            title,
            justify="right" if other_column.right else "left",
            no_wrap=not other_column.elastic,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*(value(other_column, row) for other_column in columns))
    Console(no_color=not color, force_terminal=color, highlight=False, markup=False, emoji=False).print(table)


def print_lines(rows: Sequence[Row], columns: Sequence[Column[Row]], *, header: bool, color: bool) -> None:
    """Print a line for each row, with TABs between the complete values. `header`: begin with the titles."""

    def value(column: Column[Row], row: Row) -> str:
        text = escape(column.full(row))
        return paint(text, column.style(row)) if color and column.style else text

    if header:
        write_line("\t".join(other_column.title for other_column in columns), flush=False)
    for row in rows:
        write_line("\t".join(value(other_column, row) for other_column in columns), flush=False)


def _query(text: str) -> Callable[[object], object]:
    """Parse a JMESPath expression into a function of a response."""
    import jmespath  # noqa: PLC0415 - few calls need it

    try:
        expression = jmespath.compile(text)
    except jmespath.exceptions.JMESPathError as invalid:
        raise ArgumentTypeError(f"{text!r} is not a JMESPath expression: {_reason(invalid)}") from None
    return _searching(expression, jmespath.exceptions.JMESPathError)


def _reason(invalid: Exception) -> str:
    """The first line of jmespath's message, without what every message begins with."""
    return str(invalid).splitlines()[0].removeprefix("Invalid jmespath expression: ").rstrip(":")


def _searching(expression: Any, failure: type[Exception]) -> Callable[[object], object]:  # noqa: ANN401 - untyped
    def search(response: object) -> object:
        try:
            return expression.search(response)
        except failure as invalid:
            raise UsageError(f"--query: {invalid}") from None

    return search


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
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for number, item in enumerate(value):
            yield from _flattened(item, f"{path}[{number}]")
    elif isinstance(value, list):
        yield path, " ".join(map(str, value))
    else:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)

"""Output of a list: a table on a terminal, lines with TABs in a pipe, or the form of `-o`.

A table is cut to the width of the terminal, and its times are relative. In a pipe nothing is cut, ids are complete, and
times are in ISO 8601 with the offset of the local time zone. A single resource is printed as a line for each field.
"""

import csv
import io
import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from operator import itemgetter
from typing import Any, Generic, TypeVar

from msgspec import Struct, to_builtins

from batchq.cli.output import is_terminal, paint, print_notice, uses_color, write_line
from batchq.cli.quantities import ago, clock_time, iso_text, local_time
from batchq.errors import UsageError
from batchq.system.escapes import csv_cell, escape

Row = TypeVar("Row")
LABEL_WIDTH = 13
UNLIMITED = 100_000  # characters of a line that is not cut
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
    #: The value of a row for lines with TABs, where a person reads those too; None: the complete one.
    piped: Callable[[Row], str] | None = None
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
    run: Callable[[Namespace], int | None],
    *,
    prints_list: bool = False,
) -> ArgumentParser:
    """Add a subcommand. `prints_list`: with the flags of a list."""
    command: ArgumentParser = subcommands.add_parser(name, help=summary, description=summary)
    command.set_defaults(run=run)
    if prints_list:
        add_output_flags(command)
    return command


def parse_names(text: str) -> list[str]:
    """Parse a list with commas. An empty part is an error."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise ArgumentTypeError(f"{text!r} has an empty part")
    return parts


class OutputForm(StrEnum):
    """How a list is printed. Without `-o` it is a table on a terminal, and lines with TABs in a pipe."""

    #: As on a terminal; in a pipe nothing is cut.
    TABLE = "table"
    #: All columns, with complete values.
    WIDE = "wide"
    #: The server's response.
    JSON = "json"
    #: A JSON object a line for each row.
    JSONL = "jsonl"
    #: The first column: complete ids, or names.
    IDS = "ids"
    #: Complete values behind the titles of the columns.
    CSV = "csv"


TEXT = "text"  # the default form of what is no list


def add_output_flags(command: ArgumentParser) -> None:
    """Declare the flags that the functions of this module read."""
    group = _add_output_group(command, tuple(OutputForm), "form of the list (a table, or lines with TABs in a pipe)")
    group.add_argument(
        "--columns", type=parse_names, metavar="NAMES", help="columns by their titles, in any case, separated by commas"
    )
    group.add_argument("--sort", metavar="COLUMN[:desc]", help="sort the rows by this column")
    add_color_flag(group)


def add_json_flags(command: ArgumentParser) -> Any:  # noqa: ANN401 - argparse's own
    """Declare the flags that `prints_json` and `print_json` read; returns their group."""
    return _add_output_group(command, (TEXT, OutputForm.JSON), "form of the output (text)")


def add_single_flags(command: ArgumentParser) -> None:
    """Declare the flags of a command that prints one resource: those of `add_json_flags`, and `--color`."""
    add_color_flag(add_json_flags(command))


def _add_output_group(command: ArgumentParser, forms: Sequence[str], text: str) -> Any:  # noqa: ANN401 - argparse's own
    group = command.add_argument_group("output")
    add_form_flag(group, forms, text)
    group.add_argument(
        "--query", type=_query, metavar="JMESPATH", help="print the result of this JMESPath expression as JSON"
    )
    return group


def add_form_flag(
    command: Any,  # noqa: ANN401 - a parser, or a group of argparse's
    forms: Sequence[str] = (TEXT, OutputForm.JSON),
    text: str = "form of the output (text)",
) -> None:
    """Declare `-o`, whose values are `forms`."""
    command.add_argument("-o", "--output", choices=[str(form) for form in forms], help=text)


def add_color_flag(command: Any) -> None:  # noqa: ANN401 - a parser, or a group of argparse's
    """Declare `--color`."""
    text = "colours: auto (on a terminal; NO_COLOR and FORCE_COLOR decide before), always or never"
    command.add_argument("--color", choices=["auto", "always", "never"], default="auto", help=text)


def prints_json(args: Namespace) -> bool:
    """Whether the flags ask for the whole response as JSON. Raises UsageError for `--query` with another form."""
    query = getattr(args, "query", None)
    if query and args.output not in {None, OutputForm.JSON}:
        raise UsageError(f"--query prints JSON: it excludes -o {args.output}")
    return bool(args.output == OutputForm.JSON or query)


def require_text_form(args: Namespace, noun: str) -> None:
    """Raise UsageError if the flags ask for a form of lists, for what is no list."""
    if args.output not in {None, OutputForm.TABLE, OutputForm.JSON}:
        raise UsageError(f"-o {args.output} is for lists; {noun} is printed as text, or by -o json")


def print_json(args: Namespace, response: object) -> None:
    """Print the response, or what `--query` selects from it, as JSON."""
    document, query = json_of(response), getattr(args, "query", None)
    write_line(json.dumps(query(document) if query else document, indent=2))


def print_result(args: Namespace, response: object, lines: Iterable[str]) -> None:
    """Print the response as JSON if the flags ask for it, else the lines."""
    if prints_json(args):
        print_json(args, response)
    else:
        for line in lines:
            print(escape(line))


def json_of(response: object) -> Any:  # noqa: ANN401 - any JSON
    """The JSON of a response as lists and objects, as `json.loads` returns it."""
    return json.loads(json.dumps(to_builtins(response)))


def print_list(
    args: Namespace,
    response: object,
    rows: Sequence[Row],
    columns: Sequence[Column[Row]],
    *,
    more: Sequence[Column[Row]] = (),
    ids: Column[Row] | None = None,
    document: Callable[[Row], object] = lambda row: row,
    empty: str = "",
) -> None:
    """Print the rows in the form that the flags and stdout require; as JSON, the whole response.

    `more`: further columns for `-o wide` and `--columns`. `ids`: the column for `-o ids`; None: the first.
    `document`: the JSON of a row for `-o jsonl`. `empty`: the notice if there are no rows, of lists for people.
    Raises UsageError for an unknown column.
    """
    known = {column.title: column for column in (*columns, *more)}
    chosen = [_column(known, name) for name in args.columns] if args.columns else columns
    rows = _sorted(rows, known, args.sort)
    if prints_json(args):
        print_json(args, response)
        return
    match args.output:
        case OutputForm.JSONL:
            for row in rows:
                write_line(json.dumps(json_of(document(row))), flush=False)
        case OutputForm.IDS:
            print_lines(rows, [ids or columns[0]], color=False)
        case OutputForm.CSV:
            print_csv(rows, chosen)
        case OutputForm.WIDE:
            print_rows(rows, chosen if args.columns else [*columns, *more], color=uses_color(args.color), is_wide=True)
        case None if not is_terminal():
            print_lines(rows, chosen, color=uses_color(args.color))
        case _:
            print_rows(rows, chosen, color=uses_color(args.color))
    if empty and not rows and args.output in {None, OutputForm.TABLE, OutputForm.WIDE}:
        print_notice(empty)


def _column(known: Mapping[str, Column[Row]], name: str) -> Column[Row]:
    column = known.get(name.upper())
    if column is None:
        raise UsageError(f"unknown column {name!r}; the columns are {', '.join(known).lower()}")
    return column


def _sorted(rows: Sequence[Row], known: Mapping[str, Column[Row]], sort: str | None) -> Sequence[Row]:
    """The rows by the complete values of a column: as numbers if all are, else as text. Rows without a value last."""
    if sort is None:
        return rows
    name, _, order = sort.partition(":")
    if order not in {"", "asc", "desc"}:
        raise UsageError(f"--sort {sort}: the order is asc or desc")
    column = _column(known, name)
    values = [(column.full(row), row) for row in rows]
    filled, empty = [pair for pair in values if pair[0]], [row for value, row in values if not value]
    try:
        keyed: list[tuple[Any, Row]] = [(float(value), row) for value, row in filled]
    except ValueError:
        keyed = [(value.casefold(), row) for value, row in filled]
    return [*(row for _, row in sorted(keyed, key=itemgetter(0), reverse=order == "desc")), *empty]


def print_csv(rows: Sequence[Row], columns: Sequence[Column[Row]]) -> None:
    """Print the titles and the complete values, separated by commas and quoted where needed (RFC 4180).

    Users choose reasons and values of sweeps: a spreadsheet of another user must not compute them.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(csv_cell(escape(column.title)) for column in columns)
    writer.writerows([csv_cell(escape(column.full(row))) for column in columns] for row in rows)
    write_line(text.getvalue(), end="", flush=False)


def print_rows(rows: Sequence[Row], columns: Sequence[Column[Row]], *, color: bool, is_wide: bool = False) -> None:
    """Print a table of the terminal's width: elastic columns are narrowed, and cut values end with an ellipsis.

    Without a terminal nothing is cut. `is_wide`: nothing is cut, and values are complete. Without a row nothing is
    printed.
    """
    if not rows:
        return
    # Importing rich takes longer than a request, and pipes do not need it.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    def value(column: Column[Row], row: Row) -> Text:
        style = column.style(row) if column.style else ""
        text = column.full if is_wide or column.short is None else column.short
        return Text(escape(text(row)), style=style, no_wrap=True, overflow="ellipsis", end="")

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if color else "")
    for column in columns:
        title = Text(escape(column.title), no_wrap=True, overflow="ellipsis")
        table.add_column(
            title,
            justify="right" if column.right else "left",
            no_wrap=not column.elastic,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*(value(column, row) for column in columns))
    width = None if is_terminal() and not is_wide else UNLIMITED
    console = Console(no_color=not color, force_terminal=color, highlight=False, markup=False, emoji=False, width=width)
    console.print(table, crop=False)


def print_nested(word: str, rows: Sequence[Row], columns: Sequence[Column[Row]], *, color: bool) -> None:
    """Print the parts of a resource below its fields: a table on a terminal, in a pipe lines that begin with `word`."""
    if is_terminal():
        print_rows(rows, columns, color=color)
        return
    for row in rows:
        values = "\t".join(escape(column.full(row)) for column in columns)
        write_line(f"{word}\t{values}", flush=False)


def print_lines(rows: Sequence[Row], columns: Sequence[Column[Row]], *, color: bool, header: bool = False) -> None:
    """Print a line for each row, with TABs between the complete values. `header`: begin with the titles."""

    def value(column: Column[Row], row: Row) -> str:
        text = escape((column.piped or column.full)(row))
        return paint(text, column.style(row)) if color and column.style else text

    if header:
        write_line("\t".join(escape(column.title) for column in columns), flush=False)
    for row in rows:
        write_line("\t".join(value(column, row) for column in columns), flush=False)


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


def print_fields(fields: Iterable[Field], *, color: bool) -> None:
    """Print each field: with aligned values on a terminal, with a TAB between label and value in a pipe."""
    fields = list(fields)
    width = max(LABEL_WIDTH, *(len(label) for label, _ in fields)) if fields else LABEL_WIDTH
    for label, text in fields:
        if is_terminal():
            write_line(f"  {paint(label.ljust(width), 'dim' if color else '')} {escape(text)}", flush=False)
        else:
            write_line(f"{label}\t{escape(text)}", flush=False)

"""`batchq top`: queues, capacity and jobs, refreshed on a terminal; with other input or output, a single picture."""

import os
import sys
from argparse import ArgumentParser, Namespace

from batchq.cli.http_client import url_of
from batchq.cli.job_columns import job_columns
from batchq.cli.job_selection import Filters, add_selection_flags, selection_of
from batchq.cli.output import is_terminal, write_line
from batchq.cli.quantities import now
from batchq.cli.tables import print_lines, print_rows
from batchq.cli.top_view import TopServer, TopState, View, summary_lines
from batchq.system.escapes import escape

PICTURE_ROWS = 20  # jobs of each view without a terminal


def add_top(command: ArgumentParser) -> None:
    """Show queues, capacity and jobs, refreshed every 2 seconds, or every 10 while nothing changes.

    Tab switches between running, waiting and failed jobs, / selects them by name, Enter shows the selected job, w says
    why it waits or has failed, l shows the end of its log, t terminates and c cancels it, p pauses the refresh, and q
    ends. Without a terminal, one picture is printed.
    """
    filters = ("names", "users", "accounts", "queues", "environments", "definitions")
    add_selection_flags(command, filters=filters, times=False)


def run_top(args: Namespace) -> None:
    url = url_of(args)
    server, selection = TopServer(url), selection_of(args, url)
    if not is_terminal() or sys.stdin is None or not sys.stdin.isatty() or os.environ.get("TERM") == "dumb":
        print_picture(server, selection)
        return
    # textual takes longer to import than a request takes.
    from batchq.cli.top_screen import TopApp  # noqa: PLC0415

    TopApp(server, selection).run()


def print_picture(server: TopServer, selection: Filters) -> None:
    """Print the overview, and the first jobs of each view."""
    state, present = TopState(selection), now()
    for number, view in enumerate(View):
        state.view = view
        snapshot = server.snapshot(state.filters(), limit=PICTURE_ROWS)
        if number == 0:
            for line in summary_lines(snapshot, present):
                write_line(escape(line))
        write_line("")
        write_line(view.value.upper())
        if is_terminal():
            print_rows(snapshot.rows, job_columns(present), color=False)
        else:
            print_lines(snapshot.rows, job_columns(present), header=True, color=False)

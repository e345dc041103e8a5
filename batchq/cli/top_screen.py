"""The terminal program of `batchq top`: draws what `top_view` decides, and carries out what its keys request.

Requests run in threads, since a server may be slow; a failed one is shown and repeated.
"""

from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import DataTable, Footer, Input, Label, Static

from batchq.cli.job_columns import job_columns
from batchq.cli.job_selection import Filters
from batchq.cli.quantities import now
from batchq.cli.top_view import TopServer, TopSnapshot, TopState, View, summary_lines
from batchq.errors import BatchqError
from batchq.ports.responses.jobs import JobRow
from batchq.system.escapes import escape

Stop = tuple[str, str]  # the operation, cancel or terminate, and the reason


class TextScreen(ModalScreen[None]):
    """A page of text about one job: its explanation, its details or the end of its log."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]
    CSS = "TextScreen > VerticalScroll { border: round $primary; background: $surface; padding: 0 1; }"

    def __init__(self, title: str, lines: list[str]) -> None:
        super().__init__()
        self._heading, self._lines = title, lines

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = escape(self._heading)
            yield Static(Text("\n".join(map(escape, self._lines))))
        yield Footer()


class StopDialog(ModalScreen[Stop | None]):
    """Asks for the reason of a stop; Escape changes nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]
    CSS = """
    StopDialog { align: center middle; }
    StopDialog > Vertical { width: 70; height: auto; border: round $error; background: $surface; padding: 0 1; }
    """
    EFFECTS: ClassVar[dict[str, str]] = {
        "cancel": "If it waits, it does not start. If it runs, it runs on and is not retried.",
        "terminate": "If it waits, it does not start. If it runs: SIGTERM now, SIGKILL after its grace period.",
    }

    def __init__(self, operation: str, job: JobRow) -> None:
        super().__init__()
        self._operation, self._job = operation, job

    def compose(self) -> ComposeResult:
        with Vertical():
            name = escape(f"{self._job.job_name} {self._job.job_id} ({self._job.status})")
            yield Label(Text(f"{self._operation.capitalize()} {name}"))
            yield Label(Text(self.EFFECTS[self._operation]))
            yield Input(placeholder="the reason; Enter carries it out, Escape goes back", max_length=1024)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.value.strip():
            _ = self.dismiss((self._operation, event.value.strip()))  # it cannot be awaited by its own screen


class TopApp(App[None]):
    """Queues, capacity and one table of jobs, refreshed every few seconds."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #summary { height: auto; max-height: 50%; }
    #view { height: 1; text-style: bold; }
    DataTable { height: 1fr; }
    #name { display: none; }
    #name.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "switch", "View", priority=True),
        Binding("slash", "find", "Find"),
        Binding("w", "why", "Why"),
        Binding("l", "log", "Log"),
        Binding("t", "stop('terminate')", "Terminate"),
        Binding("c", "stop('cancel')", "Cancel"),
        Binding("p", "pause", "Pause"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, server: TopServer, selection: Filters | None = None) -> None:
        super().__init__()
        self.state = TopState(selection)
        self._server = server
        self._rows: dict[str, JobRow] = {}
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        yield Static(id="view")
        yield DataTable(cursor_type="row", zebra_stripes=False)
        yield Input(id="name", placeholder="a part of the name; Enter shows the matching jobs, an empty one all")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).focus()
        self.refresh_jobs()

    # ---------------------------------------------------------------------------------------------------- refreshes
    def refresh_jobs(self) -> None:
        """Request now, and again after the interval."""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(self.state.interval, self.refresh_jobs)
        if not self.state.paused:
            self._fetch()

    @work(thread=True, exclusive=True, group="refresh")
    def _fetch(self) -> None:
        view = self.state.view
        try:
            snapshot = self._server.snapshot(self.state.filters(), limit=max(10, self.size.height))
        except BatchqError as failure:
            self.call_from_thread(self._show_failure, str(failure))
        else:
            self.call_from_thread(self._show, snapshot, view)

    def _show_failure(self, text: str) -> None:
        self.query_one("#view", Static).update(Text(escape(text), style="red"))

    def _show(self, snapshot: TopSnapshot, view: View) -> None:
        if view is not self.state.view:  # Tab was pressed while the request ran
            return
        self.state.received(snapshot)
        present = now()
        lines = summary_lines(snapshot, present)
        self.query_one("#summary", Static).update(
            Text("\n".join(map(escape, lines)), no_wrap=True, overflow="ellipsis")
        )
        self._show_heading()
        table = self.query_one(DataTable)
        selected = self._selected_id()
        self._rows = {row.job_id: row for row in snapshot.rows}
        columns = job_columns(present)
        table.clear(columns=True)
        table.add_columns(*(column.title for column in columns))
        for job_id, row in self._rows.items():
            cells = [
                Text(escape((column.short or column.full)(row)), style=column.style(row) if column.style else "")
                for column in columns
            ]
            table.add_row(*cells, key=job_id)
        if selected in self._rows:
            table.move_cursor(row=list(self._rows).index(selected), animate=False)

    def _show_heading(self) -> None:
        name = f"  name *{escape(self.state.name)}*" if self.state.name else ""
        paused = "  PAUSED" if self.state.paused else ""
        views = "  ".join(view.upper() if view is self.state.view else view.value for view in View)
        self.query_one("#view", Static).update(Text(f"{views}{name}{paused}"))

    def _selected_id(self) -> str | None:
        table = self.query_one(DataTable)
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def _selected(self) -> JobRow | None:
        return self._rows.get(self._selected_id() or "")

    # --------------------------------------------------------------------------------------------------------- keys
    def action_switch(self) -> None:
        self.state.switch()
        self._show_heading()
        self.refresh_jobs()

    def action_pause(self) -> None:
        self.state.paused = not self.state.paused
        self._show_heading()

    def action_find(self) -> None:
        field = self.query_one("#name", Input)
        field.add_class("shown")
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.state.name = event.value.strip()
        event.input.remove_class("shown")
        self.query_one(DataTable).focus()
        self.refresh_jobs()

    def on_data_table_row_selected(self, _: DataTable.RowSelected) -> None:
        self._describe("show")

    def action_why(self) -> None:
        self._describe("why")

    def action_log(self) -> None:
        self._describe("log")

    def _describe(self, what: str) -> None:
        if (job := self._selected()) is not None:
            self._fetch_text(what, job)

    @work(thread=True, group="text")
    def _fetch_text(self, what: str, job: JobRow) -> None:
        try:
            lines = self._server.describe(what, job.job_id)
        except BatchqError as failure:
            lines = [str(failure)]
        self.call_from_thread(self.push_screen, TextScreen(f"{what} {job.job_name}", lines))

    async def action_stop(self, operation: str) -> None:
        job = self._selected()
        if job is None:
            return

        def carry_out(stop: Stop | None) -> None:
            if stop is not None:
                self._stop(*stop, job.job_id)

        await self.push_screen(StopDialog(operation, job), carry_out)

    @work(thread=True, group="stop")
    def _stop(self, operation: str, reason: str, job_id: str) -> None:
        try:
            self._server.stop(operation, job_id, reason)
        except BatchqError as failure:
            self.call_from_thread(self.notify, escape(str(failure)), severity="error", markup=False)
        else:
            self.call_from_thread(self.notify, f"{operation}: {job_id}", markup=False)
        self.call_from_thread(self.refresh_jobs)

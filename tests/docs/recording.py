"""Makes docs/recording.svg from a real run of the commands of docs/sweeps.md: `python -m tests.docs.recording`.

The commands run on a pseudo-terminal against a server with Docker. Each appears when the one before has
ended, and its output after the time that the command took, at most MAX_WAIT seconds. A reader who prefers no motion, or
a program that does not animate, sees the whole picture.
"""

import asyncio
import re
import tempfile
import time
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from tests.cli.terminal_session import session
from tests.docs.engine import example_engine
from tests.docs.pages import ROOT, examples
from tests.docs.session import Session, commands

PAGE, PICTURE = ROOT / "docs" / "sweeps.md", ROOT / "docs" / "recording.svg"
COLUMNS, MAX_LINES = 110, 5  # of the screen; lines of one command's output
WIDTH, LINE, MARGIN = 8.4, 19, 18  # pixels: of a character, of a line, around the text
MAX_WAIT, TYPING = 2.0, 0.8  # seconds
LAST_LINES = re.compile(
    r" 2>&1 \| tail -(\d+)$"
)  # of the page; the picture has a bar of progress, which needs a terminal
ESCAPES, BAR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>78]"), re.compile("about .+ left")
STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d8dee9; white-space: pre; }
.command { fill: #a3be8c; font-weight: bold; }
.rest { fill: #7b8394; }
@media (prefers-reduced-motion: no-preference) {
  text { animation: appear 0s linear both; }
  @keyframes appear { from { visibility: hidden; } to { visibility: visible; } }
}
"""


class Played(NamedTuple):
    """A command with its output."""

    command: str
    #: The bar of progress as drawn in the middle of the command, and the screen at its end.
    lines: list[str]
    #: How long it ran.
    seconds: float


def commands_of_the_page() -> list[str]:
    """The commands of the page's console examples."""
    shown = [
        example for example in examples(PAGE.read_text()) if example.language == "console" and example.action == "run"
    ]
    return [LAST_LINES.sub("", command) for line in shown for command in commands(line.text)]


def play(folder: Path) -> list[Played]:
    """Run the page's examples in their order; commands of console blocks on a terminal."""
    shell = Session(folder, docker=True)
    try:
        found = []
        for example in examples(PAGE.read_text()):
            if example.language == "console" and example.action == "run":
                found += [_on_terminal(shell, command) for command in commands(example.text)]
            else:
                shell.play(example)
        return found
    finally:
        shell.close()


def _on_terminal(shell: Session, command: str) -> Played:
    began = time.monotonic()
    environment = shell.environment | {"BATCHQ_URL": shell.environment["AWS_ENDPOINT_URL"]}
    typed, last = LAST_LINES.sub("", command), LAST_LINES.search(command)
    shown = asyncio.run(session("bash", "-c", f"cd {shell.folder} && {typed}", columns=COLUMNS, **environment))
    lines, took = shown["screen"], time.monotonic() - began
    if last is None:
        return Played(typed, lines, took)
    bars = [line for line in re.split(r"[\r\n]+", ESCAPES.sub("", shown["output"])) if BAR.search(line)]
    return Played(typed, [*bars[len(bars) // 2 :][:1], *lines[-int(last[1]) :]], took)


def picture(played: list[Played]) -> str:
    """The SVG image of the commands, one below the other."""
    rows, at = list[tuple[str, str, float]](), 0.0
    for command in played:
        rows.append((f"$ {command.command}", "command", at))
        at += TYPING + min(command.seconds, MAX_WAIT)
        rows += [(line, "output", at) for line in command.lines[:MAX_LINES]]
        if len(command.lines) > MAX_LINES:
            rows.append((f"... {len(command.lines) - MAX_LINES} more lines", "rest", at))
    width, height = round(COLUMNS * WIDTH) + 2 * MARGIN, LINE * (len(rows) + 1) + 2 * MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            "<title>A parameter sweep on the command line of batchq</title>",
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#20242c"/>',
            *(_row(number, *row) for number, row in enumerate(rows, start=1)),
            "</svg>\n",
        ]
    )


def _row(number: int, text: str, kind: str, at: float) -> str:
    cut = text if len(text) <= COLUMNS else f"{text[: COLUMNS - 1]}…"
    y = MARGIN + LINE * number
    return f'<text x="{MARGIN}" y="{y}" class="{kind}" style="animation-delay: {at:.1f}s">{escape(cut)}</text>'


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="batchq-recording-") as made, example_engine(folder := Path(made)):
        PICTURE.write_text(picture(play(folder)))
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()

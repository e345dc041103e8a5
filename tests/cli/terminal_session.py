"""A command on a pseudo-terminal: `python -m tests.cli.terminal_session` reads a session as JSON from stdin.

    {"command": ["batchq", ...], "steps": [["text to wait for", "text to type"], ...], "columns": 80}

It prints {"status": ..., "output": "all output", "screen": ["the lines of the screen at the end"], "colors": ["red"]}.
pexpect forks a terminal, which is not safe in a process with threads, so it has one of its own.
"""

import asyncio
import json
import os
import sys

import pexpect
import pyte

COLUMNS, ROWS = 80, 40
TERMINAL = "xterm-256color"
PATIENCE = 60  # seconds


def play(command: list[str], steps: list[list[str]], columns: int) -> dict[str, object]:
    """Wait for each text, and type the answer."""
    output = []
    child = pexpect.spawn(command[0], command[1:], dimensions=(ROWS, columns), encoding="utf-8", timeout=PATIENCE)
    for awaited, typed in steps:
        child.expect_exact(awaited)
        output += [child.before, child.after]
        child.send(typed)
    child.expect(pexpect.EOF)
    child.close()
    text = "".join([*output, child.before])
    screen = pyte.Screen(columns, ROWS)
    pyte.Stream(screen).feed(text)
    colors = {cell.fg for row in screen.buffer.values() for cell in row.values()}
    lines = [text.rstrip() for text in screen.display if text.strip()]
    return {"status": child.exitstatus, "output": text, "screen": lines, "colors": sorted(colors)}


async def on_terminal(*command: str, steps: list[tuple[str, str]], **more: object) -> dict[str, object]:
    """Play a session of `batchq` in a process of its own. Called by tests. `more`: as in `session`."""
    return await session(sys.executable, "-m", "batchq", *command, steps=steps, **more)


async def session(
    *command: str, steps: list[tuple[str, str]] | tuple[()] = (), columns: int = COLUMNS, **environment: str
) -> dict[str, object]:
    """Play a session of any command, with further environment variables."""
    pipe = asyncio.subprocess.PIPE
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.cli.terminal_session",
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=inherited | {"TERM": TERMINAL} | environment,
    )
    plan = json.dumps({"command": command, "steps": steps, "columns": columns})
    out, err = await process.communicate(plan.encode())
    assert process.returncode == 0, err.decode()
    return json.loads(out)


if __name__ == "__main__":
    print(json.dumps(play(**json.load(sys.stdin))))

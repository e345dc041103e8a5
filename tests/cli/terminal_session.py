"""A command on a pseudo-terminal: `python -m tests.cli.terminal_session` reads a session as JSON from stdin.

    {"command": ["batchq", ...], "steps": [["text to wait for", "text to type"], ...]}

It prints {"status": ..., "output": "all output", "screen": ["the lines of the screen at the end"]}. pexpect forks a
terminal, which is not safe in a process with threads, so it has one of its own.
"""

import asyncio
import json
import sys

import pexpect
import pyte

COLUMNS, ROWS = 80, 40
PATIENCE = 60  # seconds


def play(command: list[str], steps: list[list[str]]) -> dict[str, object]:
    """Wait for each text, and type the answer."""
    output = []
    child = pexpect.spawn(command[0], command[1:], dimensions=(ROWS, COLUMNS), encoding="utf-8", timeout=PATIENCE)
    for awaited, typed in steps:
        child.expect_exact(awaited)
        output += [child.before, child.after]
        child.send(typed)
    child.expect(pexpect.EOF)
    child.close()
    text = "".join([*output, child.before])
    screen = pyte.Screen(COLUMNS, ROWS)
    pyte.Stream(screen).feed(text)
    return {"status": child.exitstatus, "output": text, "screen": [it.rstrip() for it in screen.display if it.strip()]}


async def on_terminal(*command: str, steps: list[tuple[str, str]]) -> dict[str, object]:
    """Play a session in a process of its own. Called by tests."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.cli.terminal_session", stdin=pipe, stdout=pipe, stderr=pipe
    )
    session = json.dumps({"command": [sys.executable, "-m", "batchq", *command], "steps": steps})
    out, err = await process.communicate(session.encode())
    assert process.returncode == 0, err.decode()
    return json.loads(out)


if __name__ == "__main__":
    print(json.dumps(play(**json.load(sys.stdin))))

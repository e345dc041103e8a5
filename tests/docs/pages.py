"""The documentation's pages: fenced blocks that are marked as examples, headings, and links.

A comment `<!-- example -->` directly above a fenced block marks it. A word after the colon says what is done:

    <!-- example -->               run the commands; each must succeed
    <!-- example: server FLAGS --> run the last command as a server, with further flags, until the page ends; the lines
                                   above it install batchq and are not run. If the last command is another one, start
                                   `batchq serve`, then run the commands
    <!-- example: stop -->         end the server, then run the commands
    <!-- example: interrupt -->    run each line for three seconds, then end the command by SIGINT
    <!-- example: file NAME -->    write the block to a file
    <!-- example: workflow -->     parse the block as YAML

In a `console` block each line with `$ ` is a command, and the lines below it are its recorded output.
A page that begins with `<!-- examples: docker -->` needs a Docker engine, and one with `<!-- examples: clients -->`
also the programs of `.ci/clients`; the others use simulated containers.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(
    r"^<!-- example(?:: (?P<action>\w+)(?: (?P<argument>[^\n]+?))?)? -->\n```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NEEDS = re.compile(r"<!-- examples: (\w+) -->\n")
SIMULATED, DOCKER, CLIENTS = "simulated", "docker", "clients"
ANY_BLOCK = re.compile(r"^(?P<above>[^\n]*)\n *```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
LANGUAGES_OF_COMMANDS = {"console", "python", "sh", "toml", "yaml"}
OTHER_LANGUAGES = {"", "http", "ini", "json", "mermaid", "text"}


@dataclass(frozen=True, kw_only=True)
class Example:
    action: str
    argument: str
    language: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Block:
    language: str
    first: str  # its first line
    is_example: bool

    @property
    def is_of_commands(self) -> bool:
        return self.language in LANGUAGES_OF_COMMANDS


def pages_for_users() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def pages() -> list[Path]:
    """Every Markdown file of the repository."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")])


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def examples(text: str) -> list[Example]:
    return [
        Example(
            action=found["action"] or "run",
            argument=found["argument"] or "",
            language=found["language"],
            text=found["text"],
        )
        for found in EXAMPLE.finditer(text)
    ]


def blocks(text: str) -> list[Block]:
    """The fenced blocks, also those of lists."""
    return [
        Block(
            language=found["language"],
            first=found["text"].partition("\n")[0].strip(),
            is_example=found["above"].startswith("<!-- example"),
        )
        for found in ANY_BLOCK.finditer(text)
    ]


def needs(page: Path) -> str:
    """What the examples of the page need: SIMULATED containers, DOCKER, or Docker and the CLIENTS."""
    found = NEEDS.match(page.read_text())
    return found[1] if found else SIMULATED


def pages_with_examples(need: str) -> list[Path]:
    return [page for page in pages() if examples(page.read_text()) and needs(page) == need]


def links(text: str) -> list[str]:
    """Targets of the links, without those to other sites."""
    return [
        other_text
        for other_text in LINK.findall(FENCED.sub("", text))
        if "://" not in other_text and not other_text.startswith("mailto:")
    ]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(FENCED.sub("", text))
    }

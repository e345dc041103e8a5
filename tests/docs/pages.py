"""The documentation's pages: fenced blocks that are marked as examples, headings, and links.

A comment `<!-- example -->` directly above a fenced block marks it. A word after the colon says what is done:

    <!-- example -->               run the commands; each must succeed
    <!-- example: server FLAGS --> run the last command as a server, with further flags, until the page ends; the lines
                                   above it install batchq and are not run. In a `console` block: start `batchq serve`
    <!-- example: stop -->         end the server, then run the commands
    <!-- example: file NAME -->    write the block to a file
    <!-- example: workflow -->     parse the block as YAML

In a `console` block each line with `$ ` is a command, and the lines below it are its recorded output.
A page that begins with `<!-- examples: docker -->` needs a Docker engine; the others use simulated containers.
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
NEEDS_DOCKER = "<!-- examples: docker -->"


@dataclass(frozen=True, kw_only=True)
class Example:
    action: str
    argument: str
    language: str
    text: str


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


def pages_with_examples(*, docker: bool) -> list[Path]:
    found = [page for page in pages() if examples(page.read_text())]
    return [path for path in found if path.read_text().startswith(NEEDS_DOCKER) == docker]


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

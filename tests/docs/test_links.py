"""Links among the pages lead somewhere."""

from tests.docs.pages import anchors, links, name, pages


def broken(page):
    for target in links(page.read_text()):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (anchor and anchor not in anchors(linked.read_text())):
            yield target


def test_links_lead_to_files_and_headings_that_exist():
    assert {name(page): found for page in pages() if (found := list(broken(page)))} == {}


def test_the_index_lists_every_page_of_docs():
    index = next(page for page in pages() if name(page) == "docs/README.md")

    listed = {(index.parent / link).resolve() for link in links(index.read_text())}

    assert {path for path in index.parent.glob("*.md") if path != index} <= listed


def test_the_index_of_decisions_lists_every_note_with_its_title():
    index = next(page for page in pages() if name(page) == "docs/decisions/README.md")
    notes = [path for path in index.parent.glob("[0-9]*.md") if not path.name.startswith("0000")]

    titles = {note.read_text().partition("\n")[0].removeprefix("# ") for note in notes}

    listed = {f"{number}: {title}" for number, title in index_entries(index.read_text())}
    assert titles == listed


def index_entries(text):
    rows = (line.split(" | ") for line in text.splitlines() if line.startswith("| [0"))
    return [(row[0].lstrip("| [").partition("]")[0], row[1].removesuffix(" |")) for row in rows]

"""Blocks of commands, by page: which are run, by which test, and why others are not. `python -m tests.docs.blocks`.

`not_run.tsv` has a row for each block that is not an example: page, first line, reason. A reason that begins with
`tests/` or `.ci/` names what runs the block.
"""

from pathlib import Path

from tests.docs.pages import CLIENTS, DOCKER, SIMULATED, blocks, name, needs, pages_for_users

TABLE = Path(__file__).parent / "not_run.tsv"
TESTS = {
    DOCKER: "test_examples_run_on_docker",
    CLIENTS: "test_examples_run_with_the_clients_of_other_projects",
    SIMULATED: "test_examples_run_with_simulated_containers",
}


def not_run() -> dict[tuple[str, str], str]:
    """The reasons, by page and first line of the block."""
    rows = (line.split("\t") for line in TABLE.read_text().splitlines())
    return {(page, first): reason for page, first, reason in rows}


def main() -> None:
    reasons = not_run()
    for page in pages_for_users():
        found = [block for block in blocks(page.read_text()) if block.is_of_commands]
        if examples := sum(block.is_example for block in found):
            print(name(page), f"{examples} of {len(found)} blocks: {TESTS[needs(page)]}", sep="\t")
        for block in found:
            if not block.is_example:
                print(name(page), block.first, reasons[name(page), block.first], sep="\t")


if __name__ == "__main__":
    main()

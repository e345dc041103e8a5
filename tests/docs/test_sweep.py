"""docs/sweeps.md has the commands of the AWS CLI that were measured, and a time for each step."""

import re

from tests.docs.sweep_times import AWS, PAGE, PART, STEP


def test_the_page_has_the_measured_commands_and_the_time_of_each_step():
    page = PAGE.read_text()
    generated = PART.search(page)[0]

    assert re.findall(r"```sh\n(.*?)```", generated, re.DOTALL) == list(AWS.values())
    assert re.findall(r"^\| ([A-Z].+?) \| [\d.]+ \| [\d.]+ \|$", generated, re.MULTILINE) == list(AWS)


def test_the_steps_of_both_command_lines_are_the_same():
    assert STEP.findall(PART.sub("", PAGE.read_text())) == list(AWS)

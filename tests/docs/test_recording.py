"""The recording that README shows is of the commands of docs/sweeps.md."""

import re
from xml.etree import ElementTree as ET

from tests.docs import recording


def test_the_recording_shows_the_commands_of_the_page():
    image = ET.parse(recording.PICTURE)

    shown = [it.text for it in image.iter("{http://www.w3.org/2000/svg}text") if it.get("class") == "command"]

    assert shown == [f"$ {it}" for it in recording.commands_of_the_page()]


def test_readme_shows_the_recording():
    assert re.search(r"!\[[^]]+\]\(docs/recording\.svg\)", (recording.ROOT / "README.md").read_text())

"""The transcript in docs/stopping-many.md is current."""

from tests.demo.stopping import BLOCK, PAGE, SIMULATED, anonymous, block, transcript


def test_the_transcript_of_bulk_stops_is_current(tmp_path):
    (shown,) = BLOCK.findall(PAGE.read_text())

    seen = block(transcript(tmp_path / "data", "--runtime", SIMULATED))

    assert anonymous(shown) == anonymous(seen), "run: python -m tests.demo.stopping"

"""README shows what people see who stop many jobs at once."""

from tests.demo.stopping import BLOCK, README, SIMULATED, anonymous, block, transcript


def test_readmes_transcript_is_what_is_seen(tmp_path):
    (shown,) = BLOCK.findall(README.read_text())

    seen = block(transcript(tmp_path / "data", "--runtime", SIMULATED))

    assert anonymous(shown) == anonymous(seen), "run: python -m tests.demo.stopping"

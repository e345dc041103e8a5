from tests.house.diagram import README, current


def test_readmes_picture_of_a_jobs_life_is_current():
    text = README.read_text()

    assert text == current(text), "run: python -m tests.house.diagram"

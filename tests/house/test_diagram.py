from tests.house.diagram import README, current


def test_the_state_diagram_in_readme_is_current():
    text = README.read_text()

    assert text == current(text), "run: python -m tests.house.diagram"

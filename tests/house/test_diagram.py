from tests.house.diagram import PAGE, current


def test_the_state_diagram_is_current():
    text = PAGE.read_text()

    assert text == current(text), "run: python -m tests.house.diagram"

from tests.house.room_graph import PAGE, current, edges


def test_the_picture_of_the_rooms_is_current():
    text = PAGE.read_text()

    assert text == current(text), "run: python -m tests.house.room_graph"


def test_the_page_describes_every_room():
    text = PAGE.read_text()

    assert [room for room in sorted({it for arrow in edges() for it in arrow}) if f"`{room}`" not in text] == []

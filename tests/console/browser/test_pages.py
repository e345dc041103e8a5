"""Each page of the console in Chromium: accessibility, layout, size and errors."""


def test_the_server_is_reached_by_the_browser(visitor):
    page = visitor.context.new_page()

    answer = page.goto("/livez")

    assert answer.ok

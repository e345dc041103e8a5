"""The table of docs/why.md is that of the code."""

from tests.docs import explanations


def test_the_table_of_explanations_is_current():
    page = explanations.PAGE.read_text()

    assert page == explanations.with_table(page)

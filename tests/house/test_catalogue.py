"""The catalogue of faults is whole: each row is proved by a test, or it is said why it cannot be."""

from tests.faults.catalogue import ELSEWHERE, SECTIONS, claims, rows

IDS = {row.id for row in rows()}


def test_each_row_has_an_id_of_its_own_in_a_known_section():
    assert len(rows()) == len(IDS)
    assert {it[:2] for it in IDS} == set(SECTIONS)


def test_each_row_is_proved_by_a_test_or_it_is_said_why_not():
    assert sorted(IDS - set(claims()) - set(ELSEWHERE)) == []


def test_a_test_claims_only_rows_that_there_are():
    assert sorted(set(claims()) - IDS) == []


def test_what_is_proved_is_not_said_to_be_impossible():
    assert sorted(set(ELSEWHERE) & set(claims())) == []
    assert sorted(set(ELSEWHERE) - IDS) == []

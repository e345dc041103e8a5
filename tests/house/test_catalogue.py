"""Each row of the catalogue of faults is proved by a test, or has a reason why it cannot be."""

from tests.faults.catalogue import ELSEWHERE, SECTIONS, claims, rows

IDS = {row.id for row in rows()}


def test_each_row_has_an_id_of_its_own_in_a_known_section():
    assert len(rows()) == len(IDS)
    assert {it[:2] for it in IDS} == set(SECTIONS)


def test_each_row_is_proved_by_a_test_or_has_a_reason_why_not():
    assert sorted(IDS - set(claims()) - set(ELSEWHERE)) == []


def test_tests_claim_only_existing_rows():
    assert sorted(set(claims()) - IDS) == []


def test_a_proved_row_has_no_reason_why_it_is_not():
    assert sorted(set(ELSEWHERE) & set(claims())) == []
    assert sorted(set(ELSEWHERE) - IDS) == []

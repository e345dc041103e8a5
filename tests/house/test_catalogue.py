"""Each row of the catalogue of faults is proved by a test."""

from tests.faults.catalogue import SECTIONS, claims, rows

IDS = {row.id for row in rows()}


def test_each_row_has_an_id_of_its_own_in_a_known_section():
    assert len(rows()) == len(IDS)
    assert {identifier[:2] for identifier in IDS} == set(SECTIONS)


def test_each_row_is_proved_by_a_test():
    assert sorted(IDS - set(claims())) == []


def test_tests_claim_only_existing_rows():
    assert sorted(set(claims()) - IDS) == []

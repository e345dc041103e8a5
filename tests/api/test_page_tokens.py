"""Page tokens: opaque, bound to the query and to the server's key."""

from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as some

from batchq.api.http.page_tokens import MAX_LENGTH, NONCE_LENGTH, PageTokens
from batchq.errors import Invalid

TOKENS = PageTokens(bytes(32))
QUERY = ("ListJobs", "default")
UTF8 = some.text(some.characters(exclude_categories=["Cs"]))
VALUES = some.none() | some.integers() | some.text() | some.lists(some.text()).map(tuple)
QUERIES = some.lists(VALUES).map(tuple)


@given(UTF8)
def test_read_returns_the_position_that_make_was_given(position):
    assert TOKENS.read(QUERY, TOKENS.make(QUERY, position)) == position


@pytest.mark.fault("IN20")
@given(some.text())
def test_text_that_is_not_a_token_is_refused(text):
    with pytest.raises(Invalid):
        TOKENS.read(QUERY, text)


@pytest.mark.fault("IN20")
@given(some.integers(0, 71), some.integers(1, 255))
def test_a_changed_token_is_refused(place, change):
    token = bytearray(TOKENS.make(QUERY, "12345").encode())
    token[place % len(token)] ^= change

    with pytest.raises(Invalid):
        TOKENS.read(QUERY, token.decode("latin-1"))


@pytest.mark.fault("SE08")
def test_a_token_does_not_show_its_position():
    first, second = (urlsafe_b64decode(TOKENS.make(QUERY, "1234567890")) for _ in range(2))

    assert first[NONCE_LENGTH:] != second[NONCE_LENGTH:]
    assert b"1234567890" not in first


@pytest.mark.fault("IN20")
@given(some.lists(QUERIES, min_size=2, max_size=2, unique_by=repr))
def test_a_token_of_another_query_is_refused(queries):
    its, other = queries
    token = TOKENS.make(its, "7")

    with pytest.raises(Invalid):
        TOKENS.read(other, token)


@pytest.mark.fault("IN20")
@pytest.mark.parametrize(
    "token",
    [PageTokens(b"1" * 32).make(QUERY, "7"), TOKENS.make(QUERY, "x" * MAX_LENGTH)],
    ids=["of another server", "too long"],
)
def test_a_token_of_another_server_or_longer_than_any_position_is_refused(token):
    with pytest.raises(Invalid):
        TOKENS.read(QUERY, token)

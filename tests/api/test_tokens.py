"""nextToken."""

from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as some

from api.tokens import Tokens
from batchq.errors import Invalid

TOKENS = Tokens(b"a secret")
QUERY = ("ListJobs", "default")
UTF8 = some.text(some.characters(exclude_categories=["Cs"]))


@given(UTF8)
def test_a_token_tells_the_position_it_was_made_with(position):
    assert TOKENS.read(QUERY, TOKENS.make(QUERY, position)) == position


@pytest.mark.fault("IN20")
@given(some.text())
def test_a_text_that_was_not_made_here_is_refused(text):
    with pytest.raises(Invalid):
        TOKENS.read(QUERY, text)


@pytest.mark.fault("IN20")
@given(some.integers(0, 200), some.integers(1, 255))
def test_a_token_that_was_changed_is_refused(place, change):
    token = bytearray(TOKENS.make(QUERY, "12345").encode())
    token[place % len(token)] ^= change

    with pytest.raises(Invalid):
        TOKENS.read(QUERY, token.decode("latin-1"))


@pytest.mark.fault("SE08")
@given(some.lists(some.integers(10**9, 10**12).map(str), min_size=2, max_size=2, unique=True), some.text())
def test_a_token_does_not_show_its_position(positions, query):
    """It would tell how many jobs others have."""
    first, second = (urlsafe_b64decode(TOKENS.make(query, it))[16:] for it in positions)

    veil = bytes(a ^ b for a, b in zip(first, positions[0].encode(), strict=True))
    assert any(veil)
    assert bytes(a ^ b for a, b in zip(veil, second, strict=False)) != positions[1].encode()[: len(veil)]


@pytest.mark.fault("IN20")
def test_a_token_of_another_query_or_another_server_is_refused():
    token = TOKENS.make(QUERY, "7")

    with pytest.raises(Invalid):
        TOKENS.read(("ListJobs", "other"), token)
    with pytest.raises(Invalid):
        Tokens(b"another").read(QUERY, token)


@pytest.mark.fault("IN20")
def test_a_token_does_not_carry_more_than_a_query_needs():
    with pytest.raises(Invalid):
        TOKENS.read(QUERY, TOKENS.make(QUERY, "x" * 1000))

"""Which messages a filter pattern matches."""

import asyncio

import pytest

from batchq.errors import Invalid
from batchq.logs.search import Budget, parse_pattern
from tests.support.spending import little_spent

MESSAGES = (
    "[ERROR 400] BAD REQUEST",
    "[ERROR 401] UNAUTHORIZED REQUEST",
    "[WARN] a request was slow",
    'INFO said "hello"',
)


async def found(pattern):
    asked, budget = parse_pattern(pattern), Budget(asyncio.Lock())
    return [number for number, message in enumerate(MESSAGES) if await asked.matches(message, budget)]


@pytest.mark.parametrize(
    ("pattern", "numbers"),
    [
        ("", [0, 1, 2, 3]),
        ("   ", [0, 1, 2, 3]),
        ('""', [0, 1, 2, 3]),
        ("ERROR", [0, 1]),
        ("error", []),
        ("ERROR REQUEST", [0, 1]),
        ("ERROR 401", [1]),
        ('"BAD REQUEST"', [0]),
        ('"REQUEST BAD"', []),
        ("?WARN ?INFO", [2, 3]),
        ('?"BAD REQUEST" ?INFO', [0, 3]),
        ("-ERROR", [2, 3]),
        ("ERROR -401", [0]),
        ('REQUEST -"BAD REQUEST"', [1]),
        ("?ERROR ?WARN -401", [0, 2]),
        ("REQUEST ?400 ?WARN", [0]),
        (r'"\"hello\""', [3]),
        ("a  request", [2]),
        ("\tWARN\n", [2]),
        ("401]", [1]),
    ],
)
async def test_terms_are_required_optional_or_excluded(pattern, numbers):
    assert await found(pattern) == numbers


@pytest.mark.parametrize("pattern", ['{ $.level = "ERROR" }', "[ip, user]", "%ERR.*%", "  {"])
def test_unsupported_patterns_are_refused_with_the_reason(pattern):
    with pytest.raises(Invalid, match="not supported by this server"):
        parse_pattern(pattern)


@pytest.mark.parametrize("pattern", ['"', 'a "b', '"a"b', 'a"b"', '"a" -"', "'\"", '"\\'])
def test_a_malformed_pattern_is_refused(pattern):
    with pytest.raises(Invalid, match="Invalid filter pattern"):
        parse_pattern(pattern)


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("pattern", ['"' + "\\\\" * 511 + '"', "?a" * 512, "-" * 1024, "a " * 20, "(a+)+$" * 170])
async def test_the_longest_pattern_is_matched_quickly(pattern):
    with little_spent():
        await parse_pattern(pattern).matches("a" * 256 * 1024, Budget(asyncio.Lock()))


def test_a_pattern_of_more_than_twenty_terms_is_refused():
    parse_pattern("a " * 20)
    with pytest.raises(Invalid, match="it has 21 terms"):
        parse_pattern("a " * 21)


@pytest.mark.fault("SE18")
@pytest.mark.parametrize("pattern", ['"' * 1023, '"a"' * 340 + '"', "\\" * 1024 + '"', ('"\\' * 511) + " x"])
def test_the_longest_malformed_pattern_is_refused_quickly(pattern):
    with little_spent(), pytest.raises(Invalid):
        parse_pattern(pattern)

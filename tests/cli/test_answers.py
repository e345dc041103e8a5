"""An answer about many jobs is read as it comes, wherever it is cut into pieces, and told from what is none."""

import json
from itertools import chain, pairwise, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchq.cli.answers import Answer
from batchq.errors import Unavailable

JOBS = [
    {"jobId": f"id-{number}", "jobName": 'with "quotes", ] } and ünï 👍', "outcome": "CANCELLED"} for number in range(5)
]
REST = {"counts": {"CANCELLED": 5}, "dryRun": False}
WHOLE = json.dumps({"jobs": JOBS} | REST, ensure_ascii=False).encode()


def cut(text, places):
    edges = [0, *sorted(places), len(text)]
    return [text[begin:end] for begin, end in pairwise(edges)]


@given(st.lists(st.integers(0, len(WHOLE)), max_size=40))
def test_it_is_the_same_wherever_it_is_cut(places):
    answer = Answer(cut(WHOLE, places))

    assert list(answer.jobs()) == JOBS
    assert answer.rest == REST


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n ", " :\t")])
@pytest.mark.parametrize("jobs", [[], JOBS[:1], JOBS], ids=len)
def test_however_it_is_spaced(jobs, separators):
    text = json.dumps({"jobs": jobs} | REST, separators=separators).encode()

    answer = Answer([text])

    assert list(answer.jobs()) == jobs
    assert answer.rest == REST


def test_what_came_is_told_before_the_rest_is_there():
    def pieces():
        yield WHOLE[:150]
        raise Unavailable("the server is gone")

    answer = Answer(pieces())
    jobs = answer.jobs()

    assert next(jobs) == JOBS[0]
    assert answer.begun
    with pytest.raises(Unavailable, match="the server is gone"):
        list(jobs)


@given(st.integers(0, len(WHOLE) - 1))
def test_one_that_breaks_off_is_not_taken_for_whole(length):
    with pytest.raises(Unavailable):
        list(Answer([WHOLE[:length]]).jobs())


@given(
    st.binary(max_size=200)
    | st.sampled_from([b"<html>", b"{}", b"[]", b'{"jobs": 1}', b'{"jobs": ["a"]}', WHOLE + b"}"])
)
def test_what_is_no_answer_is_unavailable(text):
    with pytest.raises(Unavailable):
        list(Answer([text]).jobs())


@pytest.mark.parametrize("more", [b"[", b" x", b'{"jobId": ' + b"[" * 10_000, b'{"jobId": "'])
def test_one_without_an_end_is_given_up(more):
    with pytest.raises(Unavailable):
        list(Answer(chain([b'{"jobs": ['], repeat(more * 100))).jobs())

"""How many examples hypothesis generates: all of them in `make test`, a tenth of them in `make check`."""

from hypothesis import settings

FULL = 100  # of a test without a number, in `make test`; the default of hypothesis


def examples(number):
    """The number for `max_examples` of a test that has so many in `make test`. At least 1."""
    return max(1, number * settings.default.max_examples // FULL)

"""Prices of resources, as `--prices FILE` sets them. Pure. Amounts are Decimal: binary fractions add up wrongly."""

from collections.abc import Mapping
from decimal import Decimal

from msgspec import Struct

from batchq.errors import Invalid

MAX_PRICE = Decimal(1_000_000)
CURRENCY_LETTERS = 3  # ISO 4217


class Prices(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prices of a job. They are copied into the job at submission: a later change does not rewrite the past."""

    #: The ISO 4217 code of all amounts, as EUR.
    currency: str
    #: For one vCPU that a job holds for an hour.
    vcpu_hour: Decimal = Decimal(0)
    #: For one GiB of memory that a job holds for an hour.
    gib_hour: Decimal = Decimal(0)
    #: For one GPU that a job holds for an hour.
    gpu_hour: Decimal = Decimal(0)
    #: For one GiB of checkpoints that is stored for a month of 730 hours.
    checkpoint_gib_month: Decimal = Decimal(0)


def prices_of(table: Mapping[str, object]) -> Prices:
    """The prices of a decoded TOML file whose numbers with a fraction are Decimal. Raises Invalid."""
    unknown = sorted(table.keys() - set(Prices.__struct_fields__))
    if unknown:
        raise Invalid(f"{unknown[0]!r} is not a price; the prices are {', '.join(Prices.__struct_fields__)}")
    currency = table.get("currency")
    if not isinstance(currency, str) or not (
        len(currency) == CURRENCY_LETTERS and currency.isascii() and currency.isalpha() and currency.isupper()
    ):
        raise Invalid("currency must be a code of three capital letters, as EUR")
    amounts = {name: _price(name, value) for name, value in table.items() if name != "currency"}
    return Prices(currency=currency, **amounts)


def _price(name: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise Invalid(f"{name} must be a number")
    price = Decimal(value)
    if not price.is_finite() or not 0 <= price <= MAX_PRICE:
        raise Invalid(f"{name} must be a number from 0 to {MAX_PRICE}")
    return price

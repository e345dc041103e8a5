"""The file of `--prices`."""

import tomllib
from decimal import Decimal
from pathlib import Path

from batchq.domain.prices import Prices, prices_of
from batchq.errors import Invalid, StartImpossible


def load_prices(file: Path | None) -> Prices | None:
    """The prices of the file; None without a file. Raises StartImpossible for a file that cannot be used."""
    if file is None:
        return None
    try:
        return prices_of(tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal))
    except (OSError, ValueError, Invalid) as why:
        raise StartImpossible(f"the prices in {file} cannot be used: {why}") from why

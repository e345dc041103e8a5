"""The answer of `/healthz`: its members, and the type of each."""

import json
import tempfile
from pathlib import Path

from tests.support.service import serving_forked


def files() -> dict[str, str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        serving_forked(Path(folder) / "data", "--runtime", "simulated") as service,
    ):
        answer = service.health()
    return {"healthz.json": json.dumps(_types(answer), indent=2) + "\n"}


def _types(value: object) -> object:
    if isinstance(value, dict):
        return {name: _types(inner) for name, inner in value.items()}
    return type(value).__name__

"""Where the real models and corpora are: the project's own model in the repository, others outside.

Tests marked `real` run a trained model; those that need more than `models/tiny-english` are marked
`assets("why")` as well.
"""

import os
from pathlib import Path

import pytest

OWN = Path(__file__).parents[2] / "models"

# models of the repository
OURS = ("tiny-english", "any-rate")


def _assets() -> Path:
    where = os.environ.get("UNMASK_TEST_ASSETS")
    if not where:
        pytest.skip("UNMASK_TEST_ASSETS is not set: no real corpora, and no models but our own")
    return Path(where)


def real_model(name: str) -> Path:
    """The folder of a real model; missing while the assets are there is a failure."""
    places = [OWN / name]
    if name in OURS:
        if not OWN.exists():
            pytest.skip("models/ is in a clone of the repository, and not in the source archive")
    else:
        places = [_assets() / "models" / name]
        if fetched := os.environ.get("UNMASK_TEST_MODELS"):
            places.append(Path(fetched) / name)
    found = next((place for place in places if (place / "config.json").exists()), None)
    if found is None:
        pytest.fail(f"model {name} is in none of {', '.join(map(str, places))}")
    return found


def real_data(name: str) -> Path:
    """A file of a real corpus; missing while the assets are there is a failure."""
    path = _assets() / "data" / name
    if not path.is_file():
        pytest.fail(f"there is no {path}")
    return path

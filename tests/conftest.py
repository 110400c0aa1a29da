"""Shapes in annotations are checked while tests run; real models are loaded once."""

import pytest
from jaxtyping import install_import_hook

# before the first import of any of its modules
with install_import_hook("unmask", "shape_checks.checked"):
    import unmask
    import unmask.cli
    import unmask.loading
    import unmask.metrics
    import unmask.tables_file

from assets import real_model


@pytest.fixture(scope="session")
def caption_bert() -> "unmask.LanguageModel":
    return unmask.load(real_model("caption-bert"))

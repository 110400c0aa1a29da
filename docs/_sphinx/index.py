"""Main index entries of pages: the site's search puts a page first for these words."""

from typing import Any

from sphinx.application import Sphinx

# a page has the words that readers search for, and not those of its own title
ENTRIES = {
    "choose-a-method": ("method",),
    "concepts/trust": ("J", "incompatibility"),
    "how-to/consistency": ("consistency", "consistency card"),
    "how-to/decode": ("decode", "parallel decoding"),
    "how-to/dependence": ("dependence", "dependence map"),
    "how-to/figures": ("figures",),
    "how-to/fill": ("fill",),
    "how-to/from-fill-mask": ("fill-mask",),
    "how-to/harness": ("harness", "lm-eval"),
    "how-to/own-model": ("LLaDA", "masked-diffusion"),
    "how-to/proteins": ("proteins", "residues"),
    "how-to/score": ("minimal pairs", "surprisal"),
    "how-to/score-pairs": ("pairs",),
    "results/sketch": ("sketch",),
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the entries below the title of each page, where GitHub's readers do not see them."""
    app.connect("source-read", _add)
    return {"parallel_read_safe": True}


def _add(_: Sphinx, page: str, source: list[str]) -> None:
    if page in ENTRIES:
        title, *lines = source[0].split("\n")
        # a comment has no place on the page, and so none for the anchor of an entry
        first = next(n for n, line in enumerate(lines) if line and not line.startswith("<!--"))
        terms = ", ".join(f"! {term}" for term in ENTRIES[page])
        entry = ["", f"```{{index}} {terms}", "```"]
        source[0] = "\n".join([title, *lines[:first], *entry, *lines[first:]])

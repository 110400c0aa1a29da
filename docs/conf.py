"""How the documentation is built: `python -m sphinx -W --keep-going -b html docs build/docs`.

Nothing is fetched while building, and pages fetch nothing while they are read. Tutorials are
notebooks with their outputs (`runs/notebooks.py` runs them): nothing is run here.
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src"
# the documented code is that of this checkout, whatever is installed
sys.path[:0] = [str(DOCS), str(SOURCE)]

project = "unmask"
author = "The unmask authors"
project_copyright = author
(release,) = re.findall(
    r'^__version__ = "(.+)"$', (SOURCE / "unmask" / "__init__.py").read_text("utf-8"), re.MULTILINE
)
version = release

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "_sphinx.cells",
    "_sphinx.folders",
    "_sphinx.formulas",
    "_sphinx.index",
    "_sphinx.names",
]
exclude_patterns = ["_sphinx"]
# what pages link to as a whole
folders_shown = [
    "how-to/kubernetes",
    "how-to/slurm",
    "results/table1-caption-bert",
    "results/table1-english-distil",
    "results/table1-tiny-english",
    "results/tables",
]
# targets without a page are those of torch, numpy and the standard library, which only intersphinx
# could resolve, from the network, and a few types that nobody has to name: so no `-n`
nitpicky = False
suppress_warnings = [
    # only colours: the lexer does not know that a command after `!` may go on in the next line
    "misc.highlighting_failure",
]

# Markdown, as GitHub shows it: anchors as there, and formulas between dollars
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
# a price is not the beginning of a formula
myst_dmath_allow_space = False
myst_update_mathjax = False
html_math_renderer = "mathml"

# docstrings are plain prose, with names in single backticks
default_role = "name"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
# a parameter a line where a signature is longer than a line of code
python_maximum_signature_line_length = 88
add_module_names = False

# tutorials have their outputs
nb_execution_mode = "off"
nb_merge_streams = True

html_theme = "furo"
html_title = "unmask"
html_baseurl = "https://unmask-lm.github.io/unmask/"
html_theme_options = {
    "source_repository": "https://github.com/unmask-lm/unmask/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
# prompts are not part of a command
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

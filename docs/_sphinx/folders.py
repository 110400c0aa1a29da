"""Folders that pages link to: their files beside the pages, and a page that lists each folder.

On GitHub such a link shows the folder. A site has no such thing unless it is made.
"""

import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def folders(app: Sphinx) -> list[Path]:
    """Every folder that is shown, with those inside it."""
    source = Path(app.srcdir)
    roots = [source / name for name in app.config.folders_shown]
    inside = [path for root in roots for path in root.rglob("*") if path.is_dir()]
    return sorted(roots + inside)


def link_folders(app: Sphinx, doctree: nodes.document) -> None:
    """Links to folders lead to their pages; MyST would take them for pages of that name."""
    here = Path(app.env.doc2path(app.env.docname)).parent.resolve()
    shown = {folder.resolve() for folder in folders(app)}
    for node in list(doctree.findall(addnodes.pending_xref)):
        target = str(node.get("reftarget", "")).rstrip("/")
        # an extension or an anchor is not of a folder
        if node.get("reftype") == "myst" and target and (here / target).resolve() in shown:
            node.replace_self(
                nodes.reference("", "", *node.children, refuri=f"{target}/index.html")
            )


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page of every folder."""
    for folder in folders(app):
        name = folder.relative_to(app.srcdir).as_posix()
        yield f"{name}/index", {"title": name, "body": _listing(folder, name)}, "page.html"


def _listing(folder: Path, name: str) -> str:
    inner = [
        (f"{path.name}/", f"{path.name}/index.html")
        for path in sorted(folder.iterdir())
        if path.is_dir()
    ]
    files = [(path.name, path.name) for path in sorted(folder.iterdir()) if path.is_file()]
    rows = "".join(
        f'<li><a class="reference" href="{escape(target)}">{escape(text)}</a></li>'
        for text, target in [("..", "../index.html")][: name.count("/") - 1] + inner + files
    )
    return f"<section><h1>{escape(name)}/</h1><ul class='simple'>{rows}</ul></section>"


def copy_files(app: Sphinx, failure: Exception | None) -> None:
    """The files of the folders, where their pages link to."""
    if failure is not None or app.builder.format != "html":
        return
    for name in app.config.folders_shown:
        shutil.copytree(Path(app.srcdir) / name, Path(app.outdir) / name, dirs_exist_ok=True)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Take part in the build."""
    app.add_config_value("folders_shown", [], "env", list)
    app.connect("doctree-read", link_folders)
    app.connect("html-collect-pages", pages)
    app.connect("build-finished", copy_files)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

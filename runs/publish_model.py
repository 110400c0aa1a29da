"""Publish the project's model on the Hugging Face Hub, after checking what would be published.

    python runs/publish_model.py --dry-run
    python runs/publish_model.py [--folder models/tiny-english] [--to unmask-lm/tiny-english]

Prints each file with its size and SHA-256. The folder must load with `unmask.load` and have a card,
README.md, whose metadata names a licence. `--dry-run` ends there. Publishing needs a token that may
write there: `hf auth login`, or HF_TOKEN. Only files directly in the folder are published, and of
these only weights, JSON, text and the card; a checkpoint of a training run stays here.
"""

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi, ModelCard
from one_line import in_one_line

import unmask
from unmask.printable import printable, quoted, readable_bytes

FOLDER = Path(__file__).parent.parent / "models" / "tiny-english"
NAME = "unmask-lm/tiny-english"
PUBLISHED = {".json", ".md", ".safetensors", ".txt"}


def files(folder: Path) -> list[Path]:
    """What would be published, by name."""
    if not folder.is_dir():
        raise unmask.UnmaskError(f"there is no folder {quoted(str(folder))}: give one as --folder")
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in PUBLISHED)


def check(folder: Path) -> None:
    """The folder has a card with a licence, and loads."""
    card = folder / "README.md"
    if not card.is_file():
        raise unmask.UnmaskError(f"there is no card {quoted(str(card))}: write one")
    try:
        licence = ModelCard.load(card).data.license
    # of YAML, or of the Hub's own rules for cards
    except Exception as error:
        raise unmask.UnmaskError(f"the metadata of {quoted(str(card))}: {error}") from None
    if not licence:
        raise unmask.UnmaskError(
            f"{quoted(str(card))} names no licence: begin it with metadata, --- license: ... ---"
        )
    unmask.load(folder)


def listing(paths: Sequence[Path]) -> str:
    """A line per file: SHA-256, size, name."""
    return "\n".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  "
        f"{readable_bytes(path.stat().st_size):>8}  {printable(path.name)}"
        for path in paths
    )


def publish(folder: Path, name: str, paths: Sequence[Path]) -> str:
    """Upload the files, making the repository if there is none; the address of the commit."""
    try:
        api = HfApi(token=True)  # never without a token, whatever the environment says
        api.create_repo(name, exist_ok=True)
        done = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=[path.name for path in paths],
            commit_message=f"Upload with unmask {unmask.__version__}",
        )
    # no token, a wrong name, no network, no right: each is of another library's own kind
    except Exception as error:
        raise unmask.UnmaskError(f"{quoted(name)} was not published: {error}") from error
    return str(done.commit_url)


@in_one_line
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the model")
    parser.add_argument("--to", default=NAME, metavar="NAME", help=f"on the Hub (default: {NAME})")
    parser.add_argument("--dry-run", action="store_true", help="check and list, publish nothing")
    chosen = parser.parse_args(arguments)
    paths = files(chosen.folder)
    check(chosen.folder)
    print(listing(paths))
    total = readable_bytes(sum(path.stat().st_size for path in paths))
    if chosen.dry_run:
        print(f"{total} would go to {chosen.to}; nothing was published", file=sys.stderr)
    else:
        print(f"published: {publish(chosen.folder, chosen.to, paths)}", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())

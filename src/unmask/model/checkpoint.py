"""The files of a model: weights from safetensors inside its folder, and no file outside it.

transformers follows whatever names `config.json` and indices give, and unpickles a file that is
not called safetensors. So it gets the weights from here, as tensors, and never the folder.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unmask.errors import ModelError
from unmask.printable import printable, quoted

_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
# what only a message needs: the names of no list decide what is read
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
# their values become arguments of a tokenizer's class, paths of files among them
_TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json")


@dataclass(frozen=True)
class Checkpoint:
    """A folder, or a Hub name at a revision."""

    where: str
    revision: str | None = None

    def path(self, name: str, *, local_files_only: bool = False) -> Path | None:
        """The path of a file; None where there is none. Files of the Hub are downloaded."""
        from transformers.utils.hub import cached_file

        path = cached_file(
            self.where,
            name,
            revision=self.revision,
            local_files_only=local_files_only,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        return None if path is None else Path(path)

    def commit(self, *, cached: bool = False) -> str | None:
        """The commit in the Hub's cache of a name and revision; a folder has none."""
        from transformers.utils.hub import extract_commit_hash

        if os.path.isdir(self.where):
            return None
        path = self.path("config.json", local_files_only=cached)
        commit: str | None = extract_commit_hash(None if path is None else str(path), None)
        return commit

    def check(self, *, may_leave: bool) -> None:
        """Reject an adapter, and links and settings of a tokenizer that lead outside the folder."""
        # transformers would add it where peft is installed, and else ignore it
        if self.path("adapter_config.json") is not None:
            raise ModelError(
                f"{self._shown} is a PEFT adapter, which unmask does not load: merge it into its "
                "base model with peft's merge_and_unload(), then save that model with its "
                "tokenizer, or pass both as a pair (model, tokenizer)"
            )
        config = self.path("config.json")
        if config is None or may_leave:
            return
        folder = config.parent
        if os.path.isdir(self.where):
            for path in (*folder.iterdir(), *folder.glob("additional_chat_templates/*")):
                if path.is_file() and not _is_inside(path, folder):
                    raise self._outside(f"{quoted(path.name)} of {self._shown} is a link to")
        for name in _TOKENIZER_SETTINGS:
            settings = self.path(name)
            # what is not JSON is explained by whoever needs it
            values = [None if settings is None else _read_json(settings)]
            for value in values:
                if isinstance(value, dict | list):
                    values += value.values() if isinstance(value, dict) else value
                # a bare name is no path to a file elsewhere
                elif isinstance(value, str) and os.path.dirname(value):
                    places = (Path(value), folder / value)
                    if any(os.path.isfile(p) and not _is_inside(p, folder) for p in places):
                        complaint = f"{name} of {self._shown} names {quoted(value)},"
                        raise self._outside(complaint, "delete that entry")

    def weights(self, config: Any) -> dict[str, Tensor]:
        """All weights, from the files that the configuration or the index names."""
        named_file = getattr(config, "transformers_weights", None)
        if named_file is not None and not isinstance(named_file, str):
            raise ModelError(
                f"transformers_weights in config.json of {self._shown} is the name of a file, not "
                f"{quoted(named_file)}"
            )
        for first in (_WEIGHTS, _INDEX) if named_file is None else (named_file,):
            if (path := self._inner_path(first)) is not None:
                break
        else:
            raise ModelError(self._without_weights(named_file))
        files: dict[str, Path | None] = {first: path}
        if first.endswith(".json"):
            index = _read_json(path)
            by_weight = index.get("weight_map") if isinstance(index, dict) else None
            if not isinstance(by_weight, dict):
                raise ModelError(f"{quoted(first)} of {self._shown} is not an index of weights")
            shards = sorted({str(name) for name in by_weight.values()})
            files = {name: self._inner_path(name) for name in shards}
        weights: dict[str, Tensor] = {}
        for name, file in files.items():
            if file is None:
                raise ModelError(f"{self._shown} lacks {quoted(name)}, which its index names")
            try:
                weights.update(load_file(file))
            except SafetensorError as error:
                raise ModelError(
                    f"{quoted(name)} of {self._shown} is not a safetensors file "
                    f"({printable(str(error))}); download it again if it is damaged; if it is a "
                    "pickle, convert it, or load with allow_pickle=True if you trust the file"
                ) from None
        return weights

    @property
    def _shown(self) -> str:
        return quoted(self.where, limit=150)

    def _outside(self, what: str, cure: str = "copy the file into it") -> ModelError:
        return ModelError(
            f"{what} a file outside the folder; {cure}, or load with allow_pickle=True if you "
            "trust the folder"
        )

    def _inner_path(self, name: str) -> Path | None:
        """The path of a file, which must be inside the folder."""
        inner = not PurePath(name).is_absolute() and ".." not in PurePath(name).parts
        path = self.path(name) if inner else None
        linked = path is not None and os.path.isdir(self.where) and not _is_inside(path, self.where)
        if not inner or linked:
            raise self._outside(f"the weights of {self._shown} are in {quoted(name)},")
        return path

    def _without_weights(self, named_file: str | None) -> str:
        if named_file is not None:
            return f"{self._shown} lacks {quoted(named_file)}, which its config.json names"
        pickles = (path for pattern in _PICKLES for path in Path(self.where).glob(pattern))
        if (pickle := next(pickles, None)) is None:
            return (
                f"{self._shown} has no safetensors weights ({_WEIGHTS}); if it has a pickle, "
                "convert it to safetensors, or load with allow_pickle=True if you trust the file"
            )
        return (
            f"{self._shown} has weights only as {quoted(pickle.name)}, a pickle; convert them to "
            "safetensors, or load with allow_pickle=True if you trust the file"
        )


def _is_inside(path: Path, folder: str | Path) -> bool:
    """True if a file lies in a folder once links are followed.

    A snapshot in the Hub's cache is made of links to the blobs beside it.
    """
    root = Path(folder).resolve()
    if root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--"):
        root = root.parent.parent
    return path.resolve().is_relative_to(root)


def _read_json(path: Path) -> Any:
    """The content of a file; None if it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None

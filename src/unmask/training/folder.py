"""The folder of a tuning: its plan and checkpoints, and in the end an ordinary model folder.

    training/plan.json          what is made: model, texts and options
    training/state.safetensors  the last checkpoint
    training/best.safetensors   the weights that were best on the held-out texts
    training/tune.lock          held by the one process that trains here

When training is over, the model's files, README.md and tuning.json take the place of `training/`.
tuning.json is written last: a folder that has it is complete.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import Timeout

from unmask.durable import explained, make_folder, put_in_place, remove_unfinished, write_text
from unmask.errors import StoreError
from unmask.jobs.canonical import changes_between
from unmask.jobs.locks import lock
from unmask.jobs.model_identity import ModelIdentity, model_changes
from unmask.printable import quoted
from unmask.training.network import Network
from unmask.training.state import as_disk_errors

_TRAINING, _PLAN, _RESULT, _LOCK = "training", "plan.json", "tuning.json", "tune"

Plan = Mapping[str, Any]


class TuningFolder:
    """Where a tuning is kept; `check` comes before anything is written."""

    def __init__(self, place: str | Path) -> None:
        self.path = Path(os.path.expanduser(place))
        self._training = self.path / _TRAINING
        self.state = self._training / "state.safetensors"
        self.best = self._training / "best.safetensors"

    @property
    def shown(self) -> str:
        """As errors name it."""
        return quoted(str(self.path), limit=150)

    def check(self) -> None:
        """Reject a folder that holds something else, and a file in its place."""
        try:
            inside = sorted(path.name for path in self.path.iterdir())
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot use {self.shown}: {error.strerror}; give a folder") from None
        files = (self._training / _PLAN, self.path / _RESULT)
        if any(path.exists() for path in files) or self._is_fresh(inside):
            return
        raise StoreError(
            f"{self.shown} is not empty, and what it holds is not a tuning "
            f"({quoted(inside[0])} is there); give another folder"
        )

    def _is_fresh(self, inside: list[str]) -> bool:
        """Empty, or left by a process that was killed before it had written its plan."""
        if inside == [_TRAINING] and self._training.is_dir():
            left = [path.name for path in self._training.iterdir()]
            return all(name == f"{_LOCK}.lock" or name.startswith(".plan.json.") for name in left)
        return not inside

    def is_complete(self, plan: Plan) -> bool:
        """Whether there is nothing left to do; raises where the folder is of another plan."""
        for path in (self.path / _RESULT, self._training / _PLAN):
            there = self._read(path)
            if there is not None:
                complete = path.name == _RESULT
                stored = there.get("plan") if complete and isinstance(there, dict) else there
                for change in _changes(stored, plan):
                    raise StoreError(
                        f"{self.shown} holds another tuning: {change}; give another folder"
                    )
                return complete
        return False

    def _read(self, path: Path) -> Any:
        try:
            return json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise StoreError(
                f"{quoted(str(path), limit=150)} cannot be read; remove {self.shown} to start anew"
            ) from None

    def result(self) -> dict[str, Any]:
        """The result of a complete folder."""
        stored = self._read(self.path / _RESULT)
        assert isinstance(stored, dict)
        return stored

    @contextmanager
    def held(self, plan: Plan) -> Iterator[None]:
        """Keep other processes out; write the plan, and clear what a killed one left half done."""
        make_folder(self._training)
        try:
            held = lock(self._training, _LOCK)
        except Timeout:
            raise StoreError(
                f"another process trains in {self.shown}; let it finish, or give another folder"
            ) from None
        with held:
            remove_unfinished(self._training)
            if not (self._training / _PLAN).exists():
                write_text(self._training / _PLAN, json.dumps(plan, indent=2) + "\n")
            yield

    def finish(
        self, network: Network, tokenizer: Any, card: str, result: Mapping[str, Any]
    ) -> None:
        """Put the model's files in place, each whole, and clear the checkpoints away."""
        fresh = self._training / "finished"
        with explained(self.path):
            shutil.rmtree(fresh, ignore_errors=True)
            with as_disk_errors():
                network.save(fresh, tokenizer)
            (fresh / "README.md").write_text(card, "utf-8")
            for path in sorted(fresh.rglob("*")):
                if path.is_file():
                    target = self.path / path.relative_to(fresh)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    put_in_place(path, target)
        write_text(self.path / _RESULT, json.dumps(result, indent=2, allow_nan=False) + "\n")

    def clear(self) -> None:
        """Remove the checkpoints of a tuning that is complete."""
        with explained(self._training):
            shutil.rmtree(self._training, ignore_errors=True)


def _changes(stored: Any, plan: Plan) -> list[str]:
    """The differences between a plan and the stored one; probabilities may be rounded."""
    there, here = dict(stored) if isinstance(stored, dict) else {}, dict(plan)
    try:
        models = [ModelIdentity.from_dict(one.pop("model")) for one in (there, here)]
    except (KeyError, TypeError, ValueError, AttributeError):
        return [change for _, change in changes_between(stored, dict(plan))]
    changes = [change for _, change in changes_between(there, here)]
    return changes or list(model_changes(*models).values())

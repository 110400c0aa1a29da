"""What files loading opens: prepared folders, all loaded by one child process that is watched.

An audit hook sees what Python opens, unpickles and executes; inotify also sees files that
compiled code opens outside the folder. Neither asks what `unmask` says of itself.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tiny_models import build
from tiny_tokenizers import PIECES

import unmask

pytestmark = pytest.mark.slow
INDEX = "model.safetensors.index.json"
TRACE = "import pathlib; pathlib.Path(__file__ + '.trace').touch()\n"


@cache
def weights() -> dict[str, torch.Tensor]:
    # clones: safetensors takes no tensors that share their memory
    return {name: value.clone() for name, value in build("bert")[0].state_dict().items()}


@dataclass
class Folder:
    """A good model folder to change, and a folder beside it that holds good files too."""

    here: Path
    outside: Path

    def change(self, file: str, **values: object) -> None:
        path = self.here / file
        old = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**old, **values}))

    def remove(self, *names: str) -> None:
        for name in names:
            (self.here / name).unlink()

    def safe(self, name: str) -> None:
        (self.here / name).parent.mkdir(exist_ok=True)
        save_file(weights(), self.here / name)

    def pickle(self, name: str) -> None:
        torch.save(weights(), self.here / name)

    def index(self, *shards: str, at: str = INDEX, only: bool = True) -> None:
        """An index that spreads the weights over files of these names."""
        names = list(weights())
        spread = {name: shards[i % len(shards)] for i, name in enumerate(names)}
        (self.here / at).parent.mkdir(exist_ok=True)
        (self.here / at).write_text(json.dumps({"metadata": {}, "weight_map": spread}))
        if only:
            self.remove("model.safetensors")

    def link(self, name: str, target: str | None = None) -> None:
        """A link to a file outside, by default the good one of that name."""
        path = self.here / name
        path.unlink(missing_ok=True)
        path.symlink_to(self.outside / (target or path.name))

    def code(self, name: str = "mine.py") -> None:
        (self.here / name).parent.mkdir(exist_ok=True)
        (self.here / name).write_text(TRACE + "class Mine: pass\n")

    def words(self) -> None:
        """The vocabulary as a plain file, for a tokenizer class that reads one."""
        self.remove("tokenizer.json")
        self.change("tokenizer_config.json", tokenizer_class="BertTokenizer", backend=None)

    def sharded(self) -> None:
        halves = sorted(weights())
        for i, names in enumerate((halves[::2], halves[1::2])):
            save_file(
                {name: weights()[name] for name in names}, self.here / f"part-{i}.safetensors"
            )
        self.index("part-0.safetensors", "part-1.safetensors")

    def hub_cache(self) -> None:
        """As `snapshot_download` leaves a folder: links to blobs that lie beside it."""
        snapshot = self.here / "models--someone--toy" / "snapshots" / "0123abcd"
        blobs = self.here / "models--someone--toy" / "blobs"
        snapshot.mkdir(parents=True)
        blobs.mkdir()
        for path in [path for path in self.here.iterdir() if path.is_file()]:
            path.rename(blobs / path.name)
            (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")

    def behind_link(self) -> None:
        self.here.rename(self.here.with_name("real"))
        self.here.symlink_to("real")

    def linked_inside(self) -> None:
        self.safe("weights/all.safetensors")
        self.remove(OLD)
        (self.here / OLD).symlink_to("weights/all.safetensors")

    def rename(self, name: str, new: str) -> None:
        (self.here / name).rename(self.here / new)

    def write(self, name: str, text: str) -> None:
        (self.here / name).write_text(text)

    def named(self, name: str) -> None:
        self.change("config.json", transformers_weights=name)

    def tokenizer(self, **values: object) -> None:
        self.change("tokenizer_config.json", **values)

    def adapter(self) -> None:
        place = str(self.outside)
        self.change("adapter_config.json", peft_type="LORA", base_model_name_or_path=place)
        self.pickle("adapter_model.bin")

    def auto_map(self, **others: object) -> None:
        self.code()
        names = {"AutoConfig": "mine.Mine", "AutoModelForMaskedLM": "mine.Mine"}
        self.change("config.json", **{"auto_map": names, **others})

    def run(self, steps: str) -> None:
        """Methods by name with their arguments, options in JSON; {out} is the other folder."""
        for step in filter(None, steps.replace("{out}", str(self.outside)).split("; ")):
            do, *words = step.split()
            options = dict(word.split("=", 1) for word in words if "=" in word)
            names = [word for word in words if "=" not in word]
            getattr(self, do)(*names, **{key: json.loads(v) for key, v in options.items()})


SAFE = "not a safetensors file"
OUT = "outside the folder"
OLD, EVIL = "model.safetensors", "evil.safetensors.index.json"
UP = "../outside/secret.safetensors"
BIN_INDEX = "pytorch_model.bin.index.json"

# what is done to a good folder, and what loading must answer; None: it loads, with its own weights
FOLDERS: dict[str, tuple[str, str | None]] = {
    "good": ("", None),
    # pickles, whatever they are called and whoever names them
    "bin": (f"pickle pytorch_model.bin; remove {OLD}", "a pickle"),
    **{s: (f"pickle model.{s}; remove {OLD}", "a pickle") for s in ("pt", "pth", "ckpt")},
    "bin index": (f'pickle part.bin; index part.bin at="{BIN_INDEX}"', "a pickle"),
    "index of bin": ("pickle w.bin; index w.bin", SAFE),
    "index of pt": ("pickle w.pt; index w.pt", SAFE),
    "index of both": ("pickle w.bin; safe w.safetensors; index w.safetensors w.bin", SAFE),
    **{
        f"another index in {place}": (
            f'pickle w.bin; index w.bin at="{place}{EVIL}" only=false; named {place}{EVIL}',
            SAFE,
        )
        for place in ("", "sub/")
    },
    "named bin": ("pickle w.bin; named w.bin", SAFE),
    "named adapter": ("pickle adapter_model.bin; named adapter_model.bin", SAFE),
    "pickle called safetensors": (f"pickle {OLD}", SAFE),
    "named pickle called safetensors": ("pickle w.safetensors; named w.safetensors", SAFE),
    "shard called safetensors": ("pickle w.safetensors; index w.safetensors", SAFE),
    "bin beside": ("pickle pytorch_model.bin", None),
    "bin and its index beside": (
        f'pickle pytorch_model.bin; index w.bin at="{BIN_INDEX}" only=false',
        None,
    ),
    "what training leaves": ("pickle training_args.bin; pickle optimizer.pt", None),
    "distributed checkpoint": (
        "pickle metadata; rename metadata .metadata; "
        "pickle shard-00000-model-00001-of-00001.safetensors",
        None,
    ),
    # files outside the folder
    "index up": (f"index {UP}", OUT),
    "index absolute": ("index {out}/secret.safetensors", OUT),
    "index up through a folder": (f"safe sub/x.safetensors; index sub/../{UP}", OUT),
    "named up": (f"named {UP}", OUT),
    "named absolute": ("named {out}/secret.safetensors", OUT),
    "named index up": ("named ../outside/model.safetensors.index.json", OUT),
    "another index up": (f'index {UP} at="{EVIL}" only=false; named {EVIL}', OUT),
    "linked weights": (f"link {OLD} secret.safetensors", OUT),
    "linked shard": ("link w.safetensors secret.safetensors; index w.safetensors", OUT),
    "linked folder": ("link sub .; index sub/secret.safetensors", OUT),
    "linked index": (f"link {INDEX}; remove {OLD}", OUT),
    "linked config": ("link config.json", OUT),
    "linked tokenizer": ("link tokenizer.json", OUT),
    "linked tokenizer config": ("link tokenizer_config.json", OUT),
    "linked templates": ("link additional_chat_templates .", OUT),
    "tokenizer of a version": (
        'tokenizer fast_tokenizer_files=["../outside/tokenizer.4.0.json"]',
        OUT,
    ),
    **{
        f"tokenizer's {key}": (f'words; tokenizer {key}="{{out}}/vocab.txt"', OUT)
        for key in ("vocab_file", "vocab", "tokenizer_file", "gguf_file", "special_tokens_map_file")
    },
    "tokenizer's inputs": ('words; tokenizer init_inputs=["{out}/vocab.txt"]', OUT),
    "tokenizer's map": (
        'words; change special_tokens_map.json vocab_file="../outside/vocab.txt"',
        OUT,
    ),
    "tokenizer's file that is not here": (
        'tokenizer special_tokens_map_file="/not/here/map.json"',
        None,
    ),
    # code
    "code for a known model": ("auto_map", None),
    "code for an unknown model": ('auto_map model_type="mine"', "custom code"),
    "code of another repository": (
        'code; change config.json auto_map={"AutoModelForMaskedLM":"{out}--mine.Mine"}',
        None,
    ),
    "code of the tokenizer": (
        'code; tokenizer auto_map={"AutoTokenizer":["mine.Mine",null]}',
        None,
    ),
    "code that generates": (
        "code custom_generate/generate.py; change generation_config.json max_length=5",
        None,
    ),
    # adapters
    "adapter beside": ("adapter", "adapter"),
    "adapter alone": (f"adapter; remove {OLD} config.json", "adapter"),
    # good ones in other places
    "shards": ("sharded", None),
    "named weights": (f"safe w.safetensors; remove {OLD}; named w.safetensors", None),
    "named index": (f"sharded; rename {INDEX} {EVIL}; named {EVIL}", None),
    "weights below": ("safe sub/w.safetensors; index sub/w.safetensors", None),
    "linked inside": ("linked_inside", None),
    "behind a link": ("behind_link", None),
    "in the hub's cache": ("hub_cache", None),
    # nonsense
    "named by a number": ("change config.json transformers_weights=7", "transformers_weights"),
    "index that is a list": (f"remove {OLD}; write {INDEX} []", "index"),
    "index of nothing": ("index gone.safetensors", "gone.safetensors"),
}

# with consent these load; the last one from outside
ALLOWED = ("bin", "bin index", "index of bin", "index up")

WATCHED = """
import ctypes, json, os, struct, sys, zipfile
from pathlib import Path

import torch, transformers
import unmask

base = Path(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
inotify = libc.inotify_init1(os.O_NONBLOCK)
# every opening of a file of this folder, by whatever code; IN_OPEN is 0x20
assert libc.inotify_add_watch(inotify, str(base / "outside").encode(), 0x20) >= 0


def opened_outside():
    try:
        data = os.read(inotify, 1 << 16)
    except BlockingIOError:
        return []
    names = []
    while data:
        length = struct.unpack("iIII", data[:16])[3]
        name = data[16 : 16 + length].rstrip(bytes(1)).decode()
        # without a name the folder itself was listed
        names += [name] if name else []
        data = data[16 + length :]
    return names


def is_pickle(path):
    return zipfile.is_zipfile(path)


here, outside = str(base.resolve()), str(base.resolve() / "outside")
seen = []
listening = False


def hook(event, args):
    if not listening:
        return
    if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
        seen.append(("open", os.path.realpath(os.fsdecode(args[0]))))
    elif event == "pickle.find_class":
        seen.append(("unpickle", f"{args[0]}.{args[1]}"))
    elif event == "exec":
        seen.append(("exec", os.path.realpath(args[0].co_filename)))


sys.addaudithook(hook)
ids = torch.tensor([[2, 5, 4, 7, 9, 3]])


def answer(place, **options):
    global listening
    folder = Path(place)
    pickles = {os.path.realpath(p) for p in folder.rglob("*") if p.is_file() and is_pickle(p)}
    opened_outside(), seen.clear()
    listening = True
    try:
        lm = unmask.load(place, **options)
        error, logits = None, lm.model.model(input_ids=ids).logits.double().sum(1)[0].tolist()
        words = lm.tokenizer("the cat sat .").input_ids
    except unmask.errors.ModelError as refusal:
        error, logits, words = str(refusal), None, None
    except BaseException as failure:
        error, logits, words = f"a traceback:\\n{failure!r}", None, None
    listening = False
    return {
        "error": error, "logits": logits, "words": words, "outside": opened_outside(),
        "pickles": sorted({p for what, p in seen if what == "open"} & pickles),
        "unpickled": [p for what, p in seen if what == "unpickle"],
        "code": [p for what, p in seen if what == "exec" and p.startswith(here)],
        "far": [p for what, p in seen if what == "open" and p.startswith(outside)],
    }


jobs = json.loads(sys.stdin.read())
print(json.dumps({name: answer(place, **options) for name, (place, options) in jobs.items()}))
"""


def _prepared(base: Path) -> dict[str, str]:
    """Where each folder of the table lies."""
    good = base / "good-model"
    for part in build("bert"):
        part.save_pretrained(good)
    outside = base / "outside"
    shutil.copytree(good, outside)
    (outside / "vocab.txt").write_text("\n".join(PIECES))
    (outside / "plain.jinja").write_text("{{ messages }}")
    shutil.copy(outside / "tokenizer.json", outside / "tokenizer.4.0.json")
    # other numbers than the folder's own: to read them would show
    other = Folder(outside, outside)
    save_file({k: v + 1 for k, v in weights().items()}, outside / "secret.safetensors")
    other.index("secret.safetensors", only=False)
    places = {}
    for number, (name, (steps, _)) in enumerate(FOLDERS.items()):
        place = base / f"model-{number}"
        shutil.copytree(good, place)
        Folder(place, outside).run(steps)
        cached = next(place.glob("models--*/snapshots/*"), None)
        places[name] = str(cached or place)
    return places


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> dict[str, Any]:
    base = tmp_path_factory.mktemp("watched")
    places = _prepared(base)
    jobs = {name: (place, {}) for name, place in places.items()}
    jobs |= {f"{name}, allowed": (places[name], {"allow_pickle": True}) for name in ALLOWED}
    source = Path(unmask.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(base)],
        input=json.dumps(jobs),
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not list(base.rglob("*.trace")), "code of a folder ran"
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


linux = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "inotify_init1"), reason="inotify belongs to Linux"
)


@linux
@pytest.mark.parametrize("name", FOLDERS)
def test_only_safetensors_inside_the_folder_are_read(watched: dict[str, Any], name: str) -> None:
    answer, sentence = watched[name], FOLDERS[name][1]
    assert (answer["outside"], answer["far"]) == ([], []), "a file outside the folder was opened"
    assert (answer["pickles"], answer["unpickled"]) == ([], []), "a pickle was opened"
    assert answer["code"] == []
    if sentence is None:
        assert answer["error"] is None
        assert answer["words"] == watched["good"]["words"]
        assert answer["logits"] == pytest.approx(watched["good"]["logits"], abs=1e-5)
    else:
        assert sentence in str(answer["error"])
        assert "\n" not in answer["error"]
        assert len(answer["error"]) < 500


@linux
@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_allowed_is_read_and_seen(watched: dict[str, Any], name: str) -> None:
    """The same watch, where it must see something."""
    answer = watched[f"{name}, allowed"]
    assert answer["error"] is None
    own = name != "index up"
    assert (answer["logits"] == pytest.approx(watched["good"]["logits"], abs=1e-5)) == own
    assert (answer["pickles"] != []) == own
    assert ("secret.safetensors" in answer["outside"]) == (not own)


def test_files_named_like_settings_in_the_working_directory_are_no_concern(
    tmp_path, monkeypatch
) -> None:
    model = tmp_path / "model"
    for part in build("bert"):
        part.save_pretrained(model)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("bert", "gelu", "absolute"):
        (elsewhere / name).touch()
    monkeypatch.chdir(elsewhere)
    unmask.load(str(model))

"""Every public path on the strict stand-in for a GPU gives the CPU's numbers.

A path is a function of a place: models on one device. Each runs on both, and whatever it returns
is compared, numbers to 1e-6. Nothing here runs on a GPU.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strict_device
import tiny_models
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import unmask
from unmask import Joint, Settings, Sketch, cli
from unmask.constructions import CONSTRUCTIONS
from unmask.evaluation.run import read_run
from unmask.model import devices

pytestmark = pytest.mark.usefixtures("read_once")

# one batch size on both devices: products of other shapes round otherwise
QUIET = Settings(batch_size=64, progress=False, announce=False)
TWO, THREE = "the cat [MASK] [MASK] the mat.", "the [MASK] [MASK] on the [MASK]."
SIX = "the [MASK] [MASK] [MASK] [MASK] the [MASK] [MASK]."
WORDS = ["cat", "sat", "on", "mat"]
TEXTS = [
    f"the {big} {who} {does} {where} the {what}."
    for big in ("big", "small")
    for who in ("cat", "dog", "man", "woman")
    for does in ("sat", "ran")
    for where in ("on", "in")
    for what in ("mat", "hat", "car")
]
WILDTYPE = "MKTAYIAKQRLEDW"


@dataclass(frozen=True)
class Place:
    """Models on one device, and a folder for what commands write."""

    device: str
    models: Path
    folder: Path

    def load(self, name: str) -> unmask.LanguageModel:
        return unmask.load(self.models / name, device=self.device)

    @cached_property
    def lm(self) -> unmask.LanguageModel:
        return self.load("bert")

    @cached_property
    def wide(self) -> unmask.LanguageModel:
        """Of a vocabulary that is worth a sketch."""
        return self.load("wide")

    @cached_property
    def protein(self) -> unmask.LanguageModel:
        return self.load("esm")

    def run(self, command: str, *arguments: str, model: str = "bert") -> str:
        """What a command prints on stdout; {folder} is a folder for what it writes."""
        given = [one.replace("{folder}", str(self.folder)) for one in arguments]
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = cli.main(
                [command, "-m", str(self.models / model), *given, "--device", self.device]
            )
        assert code == 0, err.getvalue()
        return out.getvalue()

    def written(self, name: str) -> object:
        """The parts or lines of an output, read."""
        path = self.folder / name
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        assert files
        return [_read(file) for file in files]


def _read(file: Path) -> object:
    if file.suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_table(file).to_pylist()
    text = file.read_text()
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return [[_number(cell) for cell in line.split(",")] for line in text.splitlines()]


def _number(cell: str) -> object:
    try:
        return float(cell)
    except ValueError:
        return cell


# --- what is compared ----------------------------------------------------------------------------


def summary(joint: Joint) -> dict[str, object]:
    """All that a joint answers, where it is cheap."""
    axes = range(len(joint.shape))
    best, *_, other = joint.top(5)
    answers: dict[str, object] = {
        "top": [(fill.ids, fill.log_prob) for fill in joint.top(5)],
        "log_prob": joint.log_prob(*other.ids),
        "samples": _drawn(joint),
        "conditional": joint.conditional(0, given={1: best.ids[1]}).to_dict(3),
        "interaction": joint.interaction(best.ids, other.ids),
        "log_odds": joint.log_odds(best.ids, other.ids),
        "diagnostics": joint.diagnostics,
        "repr": re.sub(r"\d+\.\d+", "", repr(joint)),
        "J": joint.incompatibility(),
    }
    if joint.is_tabulated():
        answers |= {
            "rows": joint.log_rows(slice(0, 3)).exp(),
            "marginals": [joint.marginal(axis).log_rows(slice(0, 9)) for axis in axes],
            "entropy": joint.entropy(),
            "mutual information": joint.mutual_information(base_two=True),
            "pmi": joint.pmi(*best.ids),
            "dict": joint.to_dict(4),
        }
    return answers


def _drawn(joint: Joint, count: int = 20) -> object:
    return [fill.ids for fill in joint.sample(count, seed=3)]


def summaries(joints: Mapping[str, Joint]) -> dict[str, object]:
    return {name: summary(joint) for name, joint in joints.items()}


# of a run and not of its numbers
_OWN = {"seconds", "device", "software", "bytes_per_second", "created", "command"}


def assert_same(one: Any, other: Any, at: str = "") -> None:
    """Equal, numbers to 1e-6 of themselves or of one."""
    if is_dataclass(one) and not isinstance(one, type):
        one, other = asdict(one), asdict(other)
    if isinstance(one, Joint):
        one, other = one.to_dict(), other.to_dict()
    if isinstance(one, torch.Tensor | np.ndarray):
        one, other = one.tolist(), other.tolist()
    if isinstance(one, Mapping):
        assert one.keys() == other.keys(), at
        for key in one.keys() - _OWN:
            assert_same(one[key], other[key], f"{at}/{key}")
    elif isinstance(one, Sequence) and not isinstance(one, str):
        assert len(one) == len(other), at
        for place, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{at}/{place}")
    elif isinstance(one, float) and isinstance(other, float):
        # differences of several log-probabilities, each of which is compared as well
        bound = 5e-6 if at.endswith(("log_odds", "interaction")) else 1e-6
        near = math.isclose(one, other, rel_tol=bound, abs_tol=bound)
        assert near or (math.isnan(one) and math.isnan(other)), (at, one, other)
    else:
        assert one == other, (at, one, other)


# --- the paths -----------------------------------------------------------------------------------

PATHS: dict[str, Callable[[Place], object]] = {}


def path(name: str) -> Callable[[Callable[[Place], object]], Callable[[Place], object]]:
    def add(function: Callable[[Place], object]) -> Callable[[Place], object]:
        PATHS[name] = function
        return function

    return add


for _method in CONSTRUCTIONS:
    PATHS[f"a joint of two blanks by {_method}"] = lambda place, method=_method: summary(
        place.lm.joint(TWO, method=method, support="vocabulary", settings=QUIET)
    )
    if not CONSTRUCTIONS[_method].unsketched:
        PATHS[f"a sketched joint by {_method}"] = lambda place, method=_method: _sketched(
            place.wide.joint(
                TWO, method=method, support=Sketch(precision=None, max_passes=111), settings=QUIET
            )
        )
# the others differ from these in names alone; BERT, ESM and a dense one are in other paths
ARCHITECTURES = ("distilbert", "albert", "deberta-v2", "mpnet", "modernbert")
for _name in ARCHITECTURES:
    PATHS[f"the architecture {_name}"] = lambda place, name=_name: _architecture(place, name)


def _sketched(joint: Joint) -> object:
    best = joint.top(1)[0].ids
    return joint.to_dict(4), joint.conditional(1, given={0: best[0]}).top(3), _drawn(joint, 5)


def _architecture(place: Place, name: str) -> object:
    lm = place.load(name)
    text = tiny_models.two_blanks(lm.tokenizer)
    joints = lm.joints(text, methods=["log-pool", "orders"], support="vocabulary", settings=QUIET)
    return [[(f.ids, f.log_prob) for f in joint.top(9)] for joint in joints.values()]


@path("joints of three blanks")
def _(place: Place) -> object:
    names = list(CONSTRUCTIONS)
    found = place.lm.joints(THREE, methods=names, support=WORDS, settings=QUIET)
    lazy = place.lm.joint(THREE, method="orders", support="vocabulary", settings=QUIET)
    return summaries(found), lazy.to_dict(3), _drawn(lazy, 4)


@path("joints of six blanks")
def _(place: Place) -> object:
    names = ["mlm", "log-pool", "ag", "orders"]
    found = place.lm.joints(SIX, methods=names, support=WORDS[:2], settings=QUIET)
    found = {name: joint.marginal(0, 3, 5) for name, joint in found.items()}
    lazy = place.lm.joint(SIX, method="orders", support="vocabulary", settings=QUIET)
    return summaries(found), lazy.log_prob(*WORDS, "cat", "on"), _drawn(lazy, 4)


@path("joints with options")
def _(place: Place) -> object:
    options = {
        "hcb": {"pivot": "sat"},
        "ag": {"steps": 7},
    }
    how = {"support": "no-special", "settings": QUIET, "options": options}
    return summaries(place.lm.joints(TWO, methods=list(options), **how))


@path("joints of one blank")
def _(place: Place) -> object:
    return place.lm.joint("the [MASK] sat.", settings=QUIET).to_dict(9)


@path("joints in factored tables, streamed")
def _(place: Place) -> object:
    how = Settings(batch_size=64, memory_limit=0, progress=False)
    names = ["mrf-logit", "ag", "log-pool"]
    return summaries(place.lm.joints(TWO, methods=names, settings=how))


@path("joints in half precision")
def _(place: Place) -> object:
    how = Settings(batch_size=64, half_tables=True, progress=False)
    found = place.lm.joints(TWO, methods=["ag", "log-pool"], settings=how)
    return [(joint.entropy(), joint.incompatibility()) for joint in found.values()]


@path("joints over candidates that the model proposes")
def _(place: Place) -> object:
    both = place.lm.joint(THREE, support=5, settings=QUIET)
    return summary(both), summary(place.wide.joint(TWO, support={0: 7, 1: WORDS}, settings=QUIET))


@path("the default joint of a vocabulary")
def _(place: Place) -> object:
    return _sketched(place.wide.joint(TWO, settings=QUIET))


@path("tables and metrics")
def _(place: Place) -> object:
    tables = place.lm.tables(TWO, support="vocabulary", settings=QUIET)
    joints = {name: unmask.construct(name, tables) for name in CONSTRUCTIONS}
    return (
        unmask.pair_metrics(joints, tables, ("sat", "on")),
        {
            "J": unmask.construct("log-pool", tables).incompatibility(),
            "masked": tables.masked.captured,
        },
    )


@path("dense tables and metrics of a model without an output embedding")
def _(place: Place) -> object:
    lm = place.load("deberta-v2-new-head")
    tables = lm.tables(TWO, settings=QUIET)
    joints = {name: unmask.construct(name, tables) for name in CONSTRUCTIONS}
    return (
        unmask.pair_metrics(joints, tables, ("▁sat", "▁on")),
        summary(joints["ag"]),
        lm.score(TEXTS[:2], settings=QUIET),
        lm.dependence("the cat sat.", samples=4, settings=QUIET).to_rows(),
    )


@path("fill")
def _(place: Place) -> object:
    return [
        place.lm.fill(TWO, settings=QUIET),
        place.lm.fill(THREE, support=WORDS, settings=QUIET),
        place.lm.fill(SIX, settings=QUIET),
        place.lm.decode(THREE, rule="mutual-information", threshold=0.5, settings=QUIET),
        place.lm.decode(THREE, settings=QUIET),
        place.lm.dependence(THREE, settings=QUIET).groups(at_most=0.5),
    ]


@path("fill with targets")
def _(place: Place) -> object:
    several = [["cats", "hats"], ["sat", "ran"]]
    return [
        place.lm.fill("the [MASK] [MASK] on.", targets=[["cat", "dog"], ["sat"]], settings=QUIET),
        place.lm.fill("the [MASK] [MASK] on.", targets=several, settings=QUIET),
        place.lm.fill("the [MASK] [MASK] on.", targets={0: ["cats", "hats"]}, settings=QUIET),
        place.lm.fill(
            "the [MASK] sat.", targets=["cats", "dog"], piece_prior="uniform", settings=QUIET
        ),
        place.lm.fill(
            "the [MASK] [MASK] on.", targets=[["cat", "dog"], ["sat"]], method="log-pool"
        ),
    ]


@path("pairs of words without tables")
def _(place: Place) -> object:
    items = [(TWO, "sat", "on"), ("the [MASK] [MASK] on the hat.", "dog", "ran")]
    scores = [place.lm.pairs(items, method=method, settings=QUIET) for method in ("orders", "mlm")]
    return [score.to_dict() for method in scores for score in method]


for _measure in ("mutual-information", "pmi", "jacobian"):

    @path(f"dependence by {_measure}")
    def _(place: Place, measure: str = _measure) -> object:
        maps = place.lm.dependence(TEXTS[:2], measure=measure, samples=4, settings=QUIET)
        residues = place.protein.dependence(
            WILDTYPE[:6], measure=measure, support="amino-acids", settings=QUIET
        )
        blanks = [] if measure == "pmi" else [place.lm.dependence(THREE, measure=measure)]
        return [one.to_rows() for one in (*maps, residues, *blanks)], residues.corrected().values


@path("scores of texts")
def _(place: Place) -> object:
    pairs = [(TEXTS[0], TEXTS[5]), (TEXTS[1], TEXTS[13])]
    scores = [
        *(
            place.lm.score(TEXTS[:4], method=method, settings=QUIET)
            for method in ("pll", "pll-word-l2r", "unmasking")
        ),
        place.lm.score(TEXTS[:2], method="unmasking", order="surest", settings=QUIET),
    ]
    ratios = [
        place.lm.log_ratios(pairs, method=method, settings=QUIET)
        for method in ("hcb-path", "unmasking")
    ]
    return scores, ratios


@path("scores of pairs of words")
def _(place: Place) -> object:
    items = [(TWO, "sat", "on"), ("the [MASK] [MASK] on.", "cats", "ran"), (TEXTS[0], "cat", "mat")]
    return [
        place.lm.pairs(items, method=method, support=support, settings=QUIET)
        for method, support in (("orders", "auto"), ("log-pool", "vocabulary"))
    ] + [place.wide.pairs(items[:1], method="log-pool", settings=QUIET)]


@path("the cost of joints")
def _(place: Place) -> object:
    bill = place.lm.cost(TWO, methods=["ag", "orders"], support="vocabulary", settings=QUIET)
    assert bill.seconds is not None
    return bill.to_dict()


@path("the pipeline")
def _(place: Place) -> object:
    pipeline = unmask.pipelines.JointFillMaskPipeline(place.lm.model.model, place.lm.tokenizer)
    return pipeline(TWO)


@path("the command fill")
def _(place: Place) -> object:
    return json.loads(place.run("fill", TWO, "--json", "--exact", "--batch-size", "64"))


@path("the command pairs, into a file")
def _(place: Place) -> object:
    place.run("pairs", "{folder}/pairs.csv", "-o", "{folder}/pairs.jsonl", "--quiet")
    return place.written("pairs.jsonl")


@path("the command score, into a folder")
def _(place: Place) -> object:
    place.run("score", "{folder}/texts.txt", "-o", "{folder}/scores/", "--quiet")
    return place.written("scores")


@path("the command dependence, into a folder")
def _(place: Place) -> object:
    arguments = ("{folder}/texts.txt", "--samples", "4", "--quiet")
    place.run("dependence", *arguments, "-o", "{folder}/maps/")
    return place.written("maps")


@path("the command evaluate")
def _(place: Place) -> object:
    place.run("evaluate", "{folder}/texts.txt", "-o", "{folder}/run", "--examples", "1", "--quiet")
    rows = read_run(place.folder / "run").rows
    names = {row.device for row in rows}
    assert names == {"cpu" if place.device == "cpu" else "Strict Stand-in"}
    return rows


# --- both devices --------------------------------------------------------------------------------


@contextmanager
def stand_in() -> Iterator[None]:
    """The stand-in is a GPU to the package."""
    strict_device.install()
    before = torch.__future__.get_swap_module_params_on_conversion()
    # torch changes where the numbers of a parameter are; of a tensor class it replaces the tensor
    torch.__future__.set_swap_module_params_on_conversion(True)
    # attention fused on one device alone would round otherwise
    with pytest.MonkeyPatch.context() as patch, sdpa_kernel(SDPBackend.MATH):
        patch.setattr(devices, "_GPUS", {devices.GPU, strict_device.NAME})
        yield
    torch.__future__.set_swap_module_params_on_conversion(before)


@pytest.fixture(scope="module", autouse=True)
def second_device() -> Iterator[None]:
    with stand_in():
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for name in ("bert", "esm", "deberta-v2-new-head", *ARCHITECTURES):
        tiny_models.saved(name, folder / name)
    model, tokenizer = tiny_models.build("bert")
    torch.manual_seed(1)
    model.resize_token_embeddings(600)
    with torch.no_grad():
        model.cls.predictions.bias.normal_()
    for part in (model, tokenizer):
        part.save_pretrained(folder / "wide")
    return folder


@pytest.fixture(scope="module")
def places(models: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Place]:
    found = []
    for device in ("cpu", f"{strict_device.NAME}:0"):
        folder = tmp_path_factory.mktemp("written")
        (folder / "texts.txt").write_text("\n".join(TEXTS[:12]))
        (folder / "pairs.csv").write_text(f"text,word1,word2\n{TWO},sat,on\n{TWO},cats,ran\n")
        found.append(Place(device, models, folder))
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*dense logits")
@pytest.mark.parametrize("name", PATHS)
def test_a_path_gives_the_numbers_of_the_cpu(name: str, places: list[Place]) -> None:
    here, there = (PATHS[name](place) for place in places)
    assert_same(here, there)

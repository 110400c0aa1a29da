"""What tutorials show and claim is so: their cells are run here once, in an empty folder.

Outputs are compared with those that the notebook has: words alike, numbers to a twentieth, pictures
nearly. Names are kept as they were at the end of each section, under its heading, for what the
prose claims.
"""

import base64
import io
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("nbformat")

from IPython.core.interactiveshell import InteractiveShell
from read_once import reading_once
from reading_pages import DOCS, ROOT, alike, notebook
from traitlets.config import Config

import unmask
from unmask.cli import main
from unmask.evaluation.run import read_run

sys.path.insert(0, str(ROOT / "runs"))

import notebooks

pytestmark = pytest.mark.slow

Names = Mapping[str, Any]
# of what it will cost, where a machine is so slow that a command announces it
NOTICE = re.compile(r"^.*forward passes of .* of tables\n", re.MULTILINE)
# of an object, where it has no other description
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def run(page: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each heading of a page with the names that there are at the end of its section."""
    book = notebook(DOCS / f"{page}.ipynb")
    models = notebooks.available()
    if missing := notebooks.lacking("\n".join(code_of(book)), models):
        pytest.skip(f"{page} loads {', '.join(missing)}, which is not here")
    for name, folder in models.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).symlink_to(folder, target_is_directory=True)
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.reset(new_session=False)
    shell.system = commands_of(shell)
    results: list[dict[str, Any]] = []
    shell.displayhook.write_output_prompt = lambda: None
    shell.displayhook.write_format_data = lambda data, about=None: results.append(data)
    heading = ""
    try:
        for cell in book.cells:
            if cell.cell_type == "code":
                results.clear()
                with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as printed:
                    shell.run_cell(cell.source).raise_error()
                # a command that fails does not stop a notebook
                assert shell.user_ns.get("_exit_code", 0) == 0, cell.source
                printed.seek(0)
                compare(cell, printed.read(), results)
            elif titles := re.findall(r"^#+ (.*)$", cell.source, re.MULTILINE):
                yield heading, dict(shell.user_ns)
                heading = titles[-1]
        yield heading, dict(shell.user_ns)
    finally:
        # a shell takes the place of __main__, which tests that start processes ask
        shell.restore_sys_module_state()


def code_of(book: Any) -> list[str]:
    return [cell.source for cell in book.cells if cell.cell_type == "code"]


def compare(cell: Any, printed: str, results: list[dict[str, Any]]) -> None:
    """What a cell printed and returned, with what the notebook shows under it."""
    shown = {"stream": "", "execute_result": []}
    for output in cell.outputs:
        if output.output_type == "stream":
            shown["stream"] += output.text
        else:
            shown["execute_result"].append(output.data)
    if not NOTICE.search(shown["stream"]):
        printed = NOTICE.sub("", printed)
    alike(printed, shown["stream"])
    assert len(results) == len(shown["execute_result"]), cell.source
    for one, other in zip(results, shown["execute_result"], strict=True):
        assert one.keys() == other.keys(), cell.source
        alike(ADDRESS.sub("", one["text/plain"]), ADDRESS.sub("", other["text/plain"]))
        if "image/png" in one:
            alike_pictures(one["image/png"], other["image/png"])


def alike_pictures(one: Any, other: str) -> None:
    """The same size but for a few pixels, and hardly a pixel of another colour."""
    pictures = []
    for data in (one, other):
        content = base64.b64decode(data) if isinstance(data, str) else data
        with Image.open(io.BytesIO(content)) as picture:
            pictures.append(np.asarray(picture.convert("L").resize((200, 200)), float))
    assert np.abs(pictures[0] - pictures[1]).mean() < 2


def test_another_picture_is_seen() -> None:
    books = [notebook(DOCS / f"{page}.ipynb") for page in ("quick-start", "tutorials/dependence")]
    data = [
        output.data["image/png"]
        for book in books
        for cell in book.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", ())
    ]
    alike_pictures(data[0], data[0])
    for other in data[1:]:
        with pytest.raises(AssertionError):
            alike_pictures(data[0], other)


def commands_of(shell: InteractiveShell) -> Callable[[str], None]:
    """What `!` runs: `unmask` in this process, for to start it takes longer than what it does."""
    outside = shell.system_piped

    def run_command(line: str) -> None:
        words = shlex.split(shell.var_expand(line, depth=1))
        if words[0] != "unmask":
            outside(line)
            return
        # a notebook shows both streams as one
        words, log = (words[:-2], words[-1]) if words[-2] == "2>" else (words, None)
        with (
            nullcontext(sys.stdout) if log is None else Path(log).open("w") as errors,
            redirect_stderr(errors),
        ):
            shell.user_ns["_exit_code"] = main(words[1:])

    return run_command


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Run a page, and be in the folder where it ran."""
    kept: dict[str, tuple[Path, dict[str, Names]]] = {}
    with reading_once(), pytest.MonkeyPatch.context() as patch:
        commands = tmp_path_factory.mktemp("kernel") / "kernel"
        notebooks.make_kernel(commands, {})
        for name, value in notebooks.environment(commands).items():
            patch.setenv(name, value)

        def sections(page: str) -> dict[str, Names]:
            if page not in kept:
                folder = tmp_path_factory.mktemp("page")
                patch.chdir(folder)
                kept[page] = folder, dict(run(page))
            patch.chdir(kept[page][0])
            return kept[page][1]

        yield sections


def tokens(joint: unmask.Joint, count: int) -> list[tuple[str, ...]]:
    return [fill.tokens for fill in joint.top(count)]


def test_quick_start(tutorial: Any) -> None:
    said = tutorial("quick-start")
    joint, lm, text = (said["Five lines"][name] for name in ("joint", "lm", "text"))
    assert joint.diagnostics["forward_passes"] < 250
    # what goes with what is in the joint, and not in two guesses
    guesses = lm.joint(text, support=60, method="mlm")
    assert joint.log_prob("reading", "book") > guesses.log_prob("reading", "book") + 1
    assert tokens(joint.conditional(1, given={0: "reading"}), 1) == [("book",)]
    assert joint.mutual_information(base_two=True) > 0.5
    assert said["How far to trust it"]["agreement"].bits < 0.05


@pytest.mark.real
@pytest.mark.long
def test_quick_start_over_the_whole_vocabulary() -> None:
    lm = unmask.load(ROOT / "models" / "tiny-english")
    joint = lm.joint("A woman is [MASK] a [MASK] in the kitchen.")
    assert 1_500 < joint.diagnostics["forward_passes"] <= 2_000
    assert f"{math.exp(joint.log_prob('reading', 'book')):.2f}" == "0.07"


def test_two_blanks(tutorial: Any) -> None:
    said = tutorial("tutorials/two-blanks")
    last = said["Next"]
    guesses, joint = last["guesses"], last["joint"]
    assert guesses.diagnostics["forward_passes"] == 1
    assert tokens(guesses, 3)[1:] == [("man", "are"), ("people", "is")]
    # what it costs
    assert last["exact"].forward_passes == 2 * len(last["lm"].tokenizer) + 1
    assert last["estimated"].at_most
    assert last["estimated"].forward_passes < 2000
    # the joint
    assert joint.method == "log-pool"
    assert joint.is_sketched()
    assert joint.diagnostics["precision_reached"]
    assert joint.diagnostics["forward_passes"] < 1000
    plural = {"people", "men", "women"}
    assert all((who in plural) == (verb == "are") for who, verb in tokens(joint, 5))
    assert joint.log_prob("man", "are") < guesses.log_prob("man", "are") - math.log(10)
    given = [joint.conditional(1, given={0: who}).top(1)[0].tokens for who in ("women", "man")]
    assert given == [("are",), ("is",)]
    assert joint.pmi("man", "are") < -1
    assert joint.pmi("women", "are") > 0
    assert 0 < joint.mutual_information(base_two=True) < 2
    # one text is fair, another is not
    assert joint.incompatibility() < 0.05 < last["vague"].incompatibility()
    # candidates
    few = last["few"]
    assert few.diagnostics["forward_passes"] < joint.diagnostics["forward_passes"]
    assert min(few.diagnostics["captured_mass"]) > 0.7
    assert tokens(few, 3) == tokens(joint, 3)
    assert all((who == "men") == (verb == "are") for who, verb in tokens(last["own"], 3))
    # without tables
    quick = last["lm"].joint(last["text"], method="orders")
    assert tokens(quick, 1) == tokens(joint, 1)
    assert quick.diagnostics["forward_passes"] < 100


def test_compare_constructions(tutorial: Any) -> None:
    said = tutorial("tutorials/compare-constructions")
    last = said["Which is best? Ask sentences whose words you know"]
    joints = said["What differs, and why"]["joints"]
    # one elicitation
    passes = {joint.diagnostics["forward_passes"] for joint in joints.values()}
    assert passes == {joints["log-pool"].diagnostics["forward_passes"]}
    assert len({tuple(tokens(joint, 1)) for joint in joints.values()}) > 1
    # what differs
    shared = {name: joint.mutual_information(base_two=True) for name, joint in joints.items()}
    assert abs(shared["mlm"]) < 1e-6
    assert 1.5 < shared["mrf"] / shared["log-pool"] < 2.5
    assert abs(shared["ag"] - shared["log-pool"]) < 0.2
    assert shared["orders"] < shared["log-pool"]
    assert 0 < joints["log-pool"].incompatibility() < 0.05
    # the tables make the same joint, and another with another pivot
    tables = said["Query the model once, construct later"]["tables"]
    by_pivot = [
        unmask.construct("hcb", tables, pivot=pivot, pivot_axis=1).log_prob("reading", "book")
        for pivot in ("meal", "baby", "guitar")
    ]
    assert max(by_pivot) - min(by_pivot) > 0.1
    again = unmask.construct("log-pool", tables).log_prob("reading", "book")
    assert abs(again - joints["log-pool"].log_prob("reading", "book")) < 1e-4
    # which is best
    means = last["results"].groupby("method").mean(numeric_only=True)
    assert means["pairwise_nll"]["log-pool"] < means["pairwise_nll"]["mlm"]
    assert abs(means["pairwise_nll"]["log-pool"] - means["pairwise_nll"]["ag"]) < 0.1
    assert means["pairwise_nll"]["mrf"] > means["pairwise_nll"]["log-pool"]
    assert means["all_kl"].idxmin() == "ag"
    assert means["gold_kl"].idxmax() == "mlm"
    assert means["gold_kl"]["log-pool"] < 0.05
    # a joint wins where words belong together, and not everywhere
    gain = last["each"]["mlm"] - last["each"]["log-pool"]
    assert gain.idxmax() == "reading book"
    assert gain.min() < 0


def test_evaluate_your_model(tutorial: Any) -> None:
    said = tutorial("tutorials/evaluate-your-model")
    last = said["Next"]
    assert last["words"].count(",") == 75
    whole = read_run(Path("runs/captions"))
    assert whole.missing == 0
    assert not any(row.failed for row in whole.rows)
    assert len(whole.rows) == 2 * 15 * 4
    results, differences = last["results"], last["differences"]
    assert (results["examples"] == 15).all()
    assert (results["failed"] == 0).all()
    for mask in ("contiguous", "random"):
        assert results["P-PPL"][mask]["log-pool"] < results["P-PPL"][mask]["mrf"]
        assert results["P-PPL"][mask]["log-pool"] < results["P-PPL"][mask]["mlm"]
    assert (differences["minus"] == "mlm").all()
    assert differences["P-NLL low"]["contiguous", "mrf"] > 0
    ahead = differences.loc[("contiguous", "log-pool")]
    assert ahead["P-NLL"] < 0 < ahead["P-NLL high"]
    report = Path("report.md").read_text(encoding="utf-8")
    assert "log-pool" in report
    # names and numbers, and none of the sentences
    assert "beard is drinking" not in report
    assert "fewer than 20 examples" in report


def test_dependence(tutorial: Any) -> None:
    said = tutorial("tutorials/dependence")
    last = said["What it is, and what it is not"]
    words, bits, residues = last["words"], last["bits"], last["residues"]
    assert set(words.top(1)[0].names) == {"on", "beach"}
    strong = {one.names for one in words.top(4)}
    assert {("Two", "young"), ("playing", "football")} <= strong
    assert words.forward_passes == 10 + 45
    assert bits.standard_errors is not None
    assert bits.top(1)[0].names == ("playing", "football")
    # the last word of the tree is tied by nothing much, and neighbours are most of it
    (stop,) = [edge for edge in last["tree"] if 9 in edge]
    assert words[stop] < 0.2
    shared = set(last["tree"]) & set(last["neighbours"])
    assert len(last["tree"]) / 2 <= len(shared) < len(last["tree"])
    # residues
    assert len(last["chain"]) == 121
    assert residues.forward_passes == 10 + 10 * 19 + 1
    loop = [one for one in residues.top(6) if min(one.first, one.second) >= 6]
    assert len(loop) >= 4
    assert max(last["far"], key=lambda one: one.value).names == ("C22", "C96")


def test_several_blanks(tutorial: Any) -> None:
    said = {
        re.sub(r"^(\d+)\. .*", r"\1", heading): names
        for heading, names in tutorial("tutorials/several-blanks").items()
    }
    lm = said["1"]["lm"]
    fills = said["2"]["fills"]
    assert {fill["word"] for fill in fills} == set(said["2"]["cities"])
    assert max(fill["pieces"] for fill in fills) > 1
    with pytest.raises(unmask.SupportError, match=r"pieces.*or 'uniform'"):
        lm.fill("A band is playing in [MASK].", targets=said["2"]["cities"])
    counted = lm.fill(
        said["3"]["text"], targets=said["3"]["counts"], piece_prior=said["3"]["prior"]
    )
    assert {fill["word"] for fill in counted} == set(said["3"]["counts"])
    # scores are probabilities over everything that could stand there
    listed = [said["4"]["people"], said["4"]["jobs"]]
    fills = lm.fill("The [MASK] is a [MASK].", targets=listed, top=6)
    assert len(fills) == 6
    assert sum(fill["score"] for fill in fills) < 0.5
    fills = lm.fill(said["4"]["text"], targets={1: ["guitar", "piano"]}, top=3)
    assert fills[0]["sequence"].endswith("guitar.")
    assert min(said["5"]["joint"].diagnostics["captured_mass_given_others"]) > 0.7
    assert said["5"]["joint"].agreement().words()
    assert len(said["6"]["cloze"].gold) > 1
    fills = lm.fill("A man is jump[MASK] over a wall.", targets=["ing", "ed", "s"])
    assert fills[0]["sequence"] == "A man is jumping over a wall."
    assert said["8"]["joint"].method == "orders"
    assert said["8"]["joint"].diagnostics["orders"] == 120
    joint = said["And which tokens may be decoded together?"]["joint"]
    shared = {
        (a, b): joint.marginal(a, b).mutual_information(base_two=True)
        for a, b in ((0, 1), (0, 2), (1, 2))
    }
    assert shared[1, 2] > 2 * max(shared[0, 1], shared[0, 2])

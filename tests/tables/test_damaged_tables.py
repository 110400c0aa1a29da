"""A file of tables that was damaged or changed gives right numbers or one `TablesFileError`."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, safe_open, save_file
from torch import Tensor
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.tables.file import CHECKSUM, digest

Tensors = dict[str, Tensor]
Texts = dict[str, str]
# what they change is the pair's own
Change = Callable[[Tensors, Texts], object]

MUTANTS = 24


def dense() -> unmask.PairTables:
    model = ToyMaskedLM(toy_joint(9, 2), noise=0.7)
    return unmask.LanguageModel(model, ToyTokenizer(9)).tables("[MASK] [MASK]")


def restricted() -> unmask.PairTables:
    model = ToyMaskedLM(toy_joint(9, 2), noise=0.7)
    return unmask.LanguageModel(model, ToyTokenizer(9)).tables(
        "[MASK] [MASK]", support={0: ["t1", "t4", "t5"], 1: ["t0", "t2", "t4", "t7", "t8"]}
    )


def factored() -> unmask.PairTables:
    """As a model with an output embedding that both tables share has them."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    embedding, bias = normal(12, 5), normal(12)
    masked = [torch.log_softmax(2 * normal(12).double(), dim=0) for _ in range(2)]
    return unmask.PairTables.from_logits(
        unmask.FactoredLogits(embedding, normal(12, 5), bias_a=bias),
        unmask.FactoredLogits(normal(12, 5), embedding, bias_b=bias),
        marginals=unmask.MaskedMarginals(masked[0], masked[1], (0.9, 0.8)),
        provenance={"model": "random"},
    )


KINDS = {"dense": dense, "factored": factored, "restricted": restricted}


@pytest.fixture(scope="module", params=KINDS)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / f"{request.param}.safetensors"
    unmask.save_tables(KINDS[request.param](), path)
    return path


def numbers(tables: unmask.PairTables) -> list[Tensor]:
    """All probabilities that tables hold, and whose they are."""
    every, masked = slice(0, tables.shape[0]), tables.masked
    logarithms = [
        tables.a_given_b.log_prob(every),
        tables.b_given_a.log_prob(every),
        *(masked.log_a, masked.log_b),
    ]
    ids = [axis.ids for axis in tables.supports]
    return [*(log.exp() for log in logarithms), *ids, torch.tensor(masked.captured)]


def contents(path: Path) -> tuple[Tensors, Texts]:
    with safe_open(path, framework="pt") as file:
        return load_file(path), dict(file.metadata())


def rejection(path: Path) -> str:
    """What is said of a file that is not read."""
    with pytest.raises(unmask.TablesFileError) as error:
        unmask.load_tables(path)
    said = str(error.value)
    assert said.count("\n") == 0
    assert f"{path.name}'" in said
    assert "; give " in said or "; take another copy" in said
    return said


def test_the_checksum_covers_all_tensors_and_texts(whole: Path) -> None:
    tensors, texts = contents(whole)
    assert digest(tensors, texts) == texts[CHECKSUM]
    for name in texts.keys() - {CHECKSUM}:
        assert digest(tensors, {**texts, name: texts[name] + " "}) != texts[CHECKSUM]
    for name in tensors:
        assert digest(tensors | {name: tensors[name][:-1]}, texts) != texts[CHECKSUM]


def test_a_file_has_the_numbers_that_were_saved(whole: Path) -> None:
    right, found = KINDS[whole.stem](), unmask.load_tables(whole)
    for one, other in zip(numbers(right), numbers(found), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=0)
    for method in ("orders", "log-pool"):
        unmask.construct(method, found).top(3)


def test_flipped_bytes_and_cut_files_are_found(whole: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    content = whole.read_bytes()
    for place in random.integers(0, len(content), 2 * MUTANTS):
        changed = bytearray(content)
        changed[place] ^= 1 << int(random.integers(8))
        (tmp_path / "x").write_bytes(changed)
        rejection(tmp_path / "x")
    for length in random.integers(0, len(content), MUTANTS // 2):
        (tmp_path / "x").write_bytes(content[:length])
        rejection(tmp_path / "x")


CHANGES: dict[str, Change] = {
    "another id": lambda tensors, _: tensors["ids.a"].add_(1),
    "other marginals": lambda tensors, _: tensors["masked.a"].add_(1e-9),
    "fewer ids": lambda tensors, _: tensors.update({"ids.a": tensors["ids.a"][:-1]}),
    "no ids": lambda tensors, _: tensors.pop("ids.a"),
    "a tensor more": lambda tensors, _: tensors.update(more=torch.zeros(2)),
    "other names": lambda _, texts: texts.update(names="[]"),
    "not JSON": lambda _, texts: texts.update(names="{"),
    "no names": lambda _, texts: texts.pop("names"),
    "a text more": lambda _, texts: texts.update(more=""),
    "no checksum": lambda _, texts: texts.pop(CHECKSUM),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_parts_are_found(whole: Path, tmp_path: Path, change: Change) -> None:
    tensors, texts = contents(whole)
    change(tensors, texts)
    save_file(tensors, tmp_path / "x", metadata=texts)
    assert "its content does not match its checksum" in rejection(tmp_path / "x")


@pytest.mark.parametrize("change", [{"format": "unmask.tables.pair_tables/9"}, {}])
def test_another_format_is_not_read(whole: Path, tmp_path: Path, change: Texts) -> None:
    tensors, texts = contents(whole)
    del texts["format"]
    save_file(tensors, tmp_path / "x", metadata=texts | change)
    assert "is not a file of tables" in rejection(tmp_path / "x")

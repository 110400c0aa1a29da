"""A file of tables that was damaged or changed gives right numbers or one `TablesFileError`.

Files are changed under their checksum, or with the checksum made anew, as another program would
write it. A change of numbers or names that a checksum alone can find is tried with it only.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, safe_open, save_file
from torch import Tensor
from toy_lm import ToyMaskedLM, ToyTokenizer, toy_joint

import unmask
from unmask.tables.file_checks import CHECKSUM, digest

Tensors = dict[str, Tensor]
Texts = dict[str, str]
# what they change is the pair's own; `at` is the name of a tensor
Change = Callable[[Tensors, Texts, np.random.Generator], None]

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


def written(path: Path, tensors: Tensors, texts: Texts, checksum: str) -> None:
    texts = {name: text for name, text in texts.items() if name != CHECKSUM or checksum != "none"}
    if checksum == "anew":
        texts[CHECKSUM] = digest(tensors, texts)
    save_file({name: one.contiguous() for name, one in tensors.items()}, path, metadata=texts)


def contents(path: Path) -> tuple[Tensors, Texts]:
    with safe_open(path, framework="pt") as file:
        return load_file(path), dict(file.metadata())


def rejected(path: Path, right: list[Tensor]) -> str | None:
    """What is said of a file; None if its numbers are right."""
    try:
        found = unmask.load_tables(path)
    except unmask.TablesFileError as error:
        said = str(error)
    else:
        _check_numbers(found, right)
        return None
    assert said.count("\n") == 0
    assert f"{path.name}'" in said
    assert "; give " in said or "; take another copy" in said
    return said


def _check_numbers(found: unmask.PairTables, right: list[Tensor]) -> None:
    for one, other in zip(right, numbers(found), strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(other, one, rtol=0, atol=0)
    for method in ("orders", "log-pool"):
        unmask.construct(method, found).top(3)


def test_the_checksum_covers_all_tensors_and_texts(whole: Path) -> None:
    tensors, texts = contents(whole)
    assert digest(tensors, texts) == texts[CHECKSUM]
    for name in texts.keys() - {CHECKSUM}:
        assert digest(tensors, {**texts, name: texts[name] + " "}) != texts[CHECKSUM]
    for name in tensors:
        assert digest(tensors | {name: tensors[name][:-1]}, texts) != texts[CHECKSUM]


def test_flipped_bytes_and_cut_files_are_found(whole: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    right, content = numbers(unmask.load_tables(whole)), whole.read_bytes()
    said = []
    for place in random.integers(0, len(content), 2 * MUTANTS):
        changed = bytearray(content)
        changed[place] ^= 1 << int(random.integers(8))
        (tmp_path / "x").write_bytes(changed)
        said.append(rejected(tmp_path / "x", right))
    for length in random.integers(0, len(content), MUTANTS // 2):
        (tmp_path / "x").write_bytes(content[:length])
        said.append(rejected(tmp_path / "x", right))
    assert None not in said


def test_flipped_bits_of_numbers_are_found(whole: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    right, said = numbers(unmask.load_tables(whole)), []
    for _ in range(MUTANTS):
        tensors, texts = contents(whole)
        held = sorted(name for name in tensors if not name.startswith("ids"))
        flat = tensors[held[random.integers(len(held))]].view(torch.uint8).view(-1)
        flat[random.integers(len(flat))] ^= 1 << int(random.integers(8))
        written(tmp_path / "x", tensors, texts, "stale")
        said.append(rejected(tmp_path / "x", right))
    assert None not in said


def _shifted(name: str, by: float) -> Change:
    def change(tensors: Tensors, *_: object) -> None:
        for full in [one for one in tensors if one.endswith(name)]:
            tensors[full] = tensors[full] + by

    return change


def _set(name: str, value: float) -> Change:
    def change(tensors: Tensors, _: Texts, random: np.random.Generator) -> None:
        full = next(one for one in sorted(tensors) if name in one)
        tensors[full] = tensors[full].clone()
        tensors[full].view(-1)[random.integers(tensors[full].numel())] = value

    return change


def _cut(name: str) -> Change:
    def change(tensors: Tensors, *_: object) -> None:
        full = next(one for one in sorted(tensors) if name in one)
        tensors[full] = tensors[full][:-1]

    return change


def _of_type(name: str, dtype: torch.dtype) -> Change:
    def change(tensors: Tensors, *_: object) -> None:
        full = next(one for one in sorted(tensors) if name in one)
        tensors[full] = tensors[full].to(dtype)

    return change


def _without(name: str) -> Change:
    def change(tensors: Tensors, *_: object) -> None:
        del tensors[next(one for one in sorted(tensors) if name in one)]

    return change


def _turned(tensors: Tensors, *_: object) -> None:
    full = next(one for one in sorted(tensors) if one.endswith(("dense", "left")))
    tensors[full] = tensors[full].T


def _emptied(tensors: Tensors, *_: object) -> None:
    for name, one in tensors.items():
        tensors[name] = one[:0]


def _repeated_id(tensors: Tensors, *_: object) -> None:
    tensors["ids.a"][0] = tensors["ids.a"][1]


def _extra(tensors: Tensors, *_: object) -> None:
    tensors["more"] = torch.zeros(2)


def _text(name: str, text: str) -> Change:
    def change(_: Tensors, texts: Texts, __: np.random.Generator) -> None:
        texts[name] = text

    return change


def _no_text(name: str) -> Change:
    def change(_: Tensors, texts: Texts, __: np.random.Generator) -> None:
        del texts[name]

    return change


def _numbered(_: Tensors, texts: Texts, __: np.random.Generator) -> None:
    texts["names"] = json.dumps([[*names[:-1], 7] for names in json.loads(texts["names"])])


DEEP = "[" * 100_000 + "]" * 100_000
NESTED = '{"x":' * 200 + "1" + "}" * 200
CHANGED_NUMBERS: dict[str, Change] = {
    "marginals shifted": _shifted("masked.a", 5.0),
    "marginals shifted little": _shifted("masked.b", 1e-3),
    "normalisers shifted": _shifted("log_normalizer", 3.0),
    "a normaliser that is infinite": _set("log_normalizer", torch.inf),
    "a marginal that is nan": _set("masked.a", torch.nan),
    "logits that are nan": _set("a_given_b.", torch.nan),
    "logits that are infinite": _set("b_given_a.", -torch.inf),
    "a huge number": _set("b_given_a.", 3e38),
    "turned": _turned,
}
CHANGES: dict[str, Change] = {
    "fewer logits": _cut("a_given_b."),
    "fewer normalisers": _cut("log_normalizer"),
    "fewer marginals": _cut("masked.b"),
    "fewer ids": _cut("ids.a"),
    "emptied": _emptied,
    "whole logits": _of_type("a_given_b.", torch.int32),
    "whole normalisers": _of_type("log_normalizer", torch.int64),
    "half normalisers": _of_type("log_normalizer", torch.float16),
    "bytes for marginals": _of_type("masked.a", torch.uint8),
    "complex": _of_type("masked.a", torch.complex64),
    "truth for ids": _of_type("ids.", torch.bool),
    "real ids": _of_type("ids.a", torch.float32),
    "negative id": _set("ids.", -1),
    "the same id twice": _repeated_id,
    "no ids": _without("ids."),
    "no marginals": _without("masked.a"),
    "no normalisers": _without("log_normalizer"),
    "no logits": _without("b_given_a."),
    "a tensor more": _extra,
    "aliases in a list": _text("aliases", "[]"),
    "aliases of what is not there": _text("aliases", '{"b_given_a.right": "x"}'),
    "aliases of numbers": _text("aliases", '{"b_given_a.right": 1}'),
    "aliases of lists": _text("aliases", '{"b_given_a.right": ["masked.a"]}'),
    "captured of one": _text("captured", "[1]"),
    "captured as a text": _text("captured", '"ab"'),
    "captured of texts": _text("captured", '["a", "b"]'),
    "captured beyond one": _text("captured", "[0.5, 1.5]"),
    "captured nan": _text("captured", "[NaN, 0.5]"),
    "captured nothing": _text("captured", "null"),
    "captured as an object": _text("captured", "{}"),
    "provenance in a list": _text("provenance", "[1]"),
    "provenance too deep to be read": _text("provenance", DEEP),
    "provenance too deep to be shown": _text("provenance", NESTED),
    "a number that Python does not read": _text("provenance", '{"x": ' + "1" * 5000 + "}"),
    "names of one blank": _text("names", '[["a"]]'),
    "names that are none": _text("names", "3"),
    "a name that is a number": _numbered,
    "not JSON": _text("names", "{"),
    "empty text": _text("aliases", ""),
    "no names": _no_text("names"),
    "no provenance": _no_text("provenance"),
    "a text more": _text("chec{sum", "0" * 64),
    "another format": _text("format", "unmask.tables.pair_tables/9"),
    "no format": _no_text("format"),
}


@pytest.mark.parametrize("checksum", ["stale", "anew"])
def test_changed_parts_are_found(whole: Path, tmp_path: Path, checksum: str) -> None:
    random = np.random.default_rng(3)
    right = numbers(unmask.load_tables(whole))
    changes = CHANGES if checksum == "anew" else CHANGES | CHANGED_NUMBERS
    for name, change in changes.items():
        tensors, texts = contents(whole)
        change(tensors, texts, random)
        written(tmp_path / "x", tensors, texts, checksum)
        assert rejected(tmp_path / "x", right) is not None, name


def test_what_only_a_checksum_finds_is_found(whole: Path, tmp_path: Path) -> None:
    for change in (_shifted("ids.a", 1), _text("provenance", "{}"), _text("captured", "[1, 1]")):
        tensors, texts = contents(whole)
        change(tensors, texts, np.random.default_rng(0))
        written(tmp_path / "x", tensors, texts, "stale")
        with pytest.raises(unmask.TablesFileError, match="does not match its checksum"):
            unmask.load_tables(tmp_path / "x")


def test_a_file_without_a_checksum_is_rejected(whole: Path, tmp_path: Path) -> None:
    tensors, texts = contents(whole)
    written(tmp_path / "x", tensors, texts, "none")
    with pytest.raises(
        unmask.TablesFileError, match=r"it has no checksum; .*save the tables again"
    ):
        unmask.load_tables(tmp_path / "x")


def test_numbers_are_not_computed_again(tmp_path: Path, monkeypatch) -> None:
    """Products of another precision do not add up elsewhere; the checksum covers them."""
    unmask.save_tables(factored(), tmp_path / "ok")
    for name in ("dense", "block"):
        monkeypatch.setattr(unmask.FactoredLogits, name, lambda *_: pytest.fail("computed"))
    unmask.load_tables(tmp_path / "ok")

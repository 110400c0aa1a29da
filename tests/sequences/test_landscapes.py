"""Landscapes: every combination against definitions, rows that are shared, what is refused."""

import csv
import itertools
import json
import math
import shlex
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import reference_several as reference
import torch
from assets import real_model
from pairwise_lm import LETTERS, pairwise_lm, truth
from tiny_models import build, saved

import unmask
from unmask import cli
from unmask.sequences.landscapes import (
    landscape_methods,
    landscape_requests,
    landscape_variant,
)
from unmask.sequences.residues import parse_mutations

QUIET = unmask.Settings(progress=False, announce=False)
SEQUENCE = "ACDEFGHIKLMN"
# given out of order: axes follow positions
MUTATIONS = [f"{letter}{n}{LETTERS[(n + 6) % 20]}" for n, letter in enumerate(SEQUENCE, start=1)]
# what recovers a joint that has all the conditionals
EXACT = ("hcb", "hcb-path", "ag", "weighted-ag", "pseudo-gibbs", "log-pool")


def landscape(k: int, methods, *, noise: float = 0.0):
    lm, model = pairwise_lm(12, noise=noise)
    return lm.landscape(SEQUENCE, MUTATIONS[:k], methods=methods, settings=QUIET), model


def planned(k: int, methods) -> int:
    """The forward passes that are announced."""
    lm, _ = pairwise_lm(12)
    parsed = parse_mutations(":".join(MUTATIONS[:k]), SEQUENCE)
    return len(landscape_requests(landscape_variant(lm, SEQUENCE, parsed), methods))


# --- against definitions -----------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("method", EXACT)
def test_a_compatible_model_gives_the_true_landscape(k, method):
    found, model = landscape(k, [method])
    expected = truth(model, SEQUENCE, MUTATIONS[:k])
    np.testing.assert_allclose(found.of(method).numpy(), expected, atol=5e-5)
    assert found.of(method).shape == (2,) * k
    assert np.abs(expected).max() > 1


def given_by(model, mutations):
    """The model's distribution over wild type and mutant, read row by row."""

    @cache
    def given(t, tokens):
        row = [LETTERS.index(letter) for letter in SEQUENCE]
        places = [int(one[1:-1]) - 1 for one in mutations]
        for place, one, token in zip(places, mutations, tokens, strict=True):
            letter = None if token is None else one[-1] if token else one[0]
            row[place] = model.mask_id if letter is None else LETTERS.index(letter)
        logits = model.readouts(torch.tensor([row]), [places[t]])[0, 0].double().numpy()
        both = [logits[LETTERS.index(mutations[t][at])] for at in (0, -1)]
        return np.exp(both - np.logaddexp(*both))

    return given


@pytest.mark.parametrize("k", [2, 3, 5])
def test_an_incompatible_model_gives_what_the_definitions_say(k):
    methods = ["mlm", "mrf", "hcb", "pseudo-gibbs", "log-pool", "orders"]
    found, model = landscape(k, methods, noise=0.5)
    given, shape = given_by(model, MUTATIONS[:k]), (2,) * k
    path = list(reversed(range(k)))
    expected = {
        "mlm": reference.independent(given, shape),
        "mrf": reference.markov_field(given, shape),
        "hcb": reference.besag(given, shape, (0,) * k, path),
        "pseudo-gibbs": reference.pseudo_gibbs(given, shape),
        "log-pool": reference.log_pool(given, shape),
        "orders": reference.orders(given, shape),
    }
    for method, table in expected.items():
        log_p = np.log(table)
        np.testing.assert_allclose(
            found.of(method).numpy(), log_p - log_p.flat[0], atol=1e-4, err_msg=method
        )
    assert found.incompatibility > 1e-5


def test_the_mean_over_paths_is_that_of_all_paths():
    found, model = landscape(4, ["hcb-path"], noise=0.5)
    given = given_by(model, MUTATIONS[:4])
    for cell in itertools.product((0, 1), repeat=4):
        made = [t for t in range(4) if cell[t]]
        sums = []
        for order in itertools.permutations(made):
            here, total = [0] * 4, 0.0
            for t in order:
                q = given(t, tuple(None if s == t else here[s] for s in range(4)))
                total += math.log(q[1] / q[0])
                here[t] = 1
            sums.append(total)
        assert float(found.of()[cell]) == pytest.approx(np.mean(sums), abs=1e-5)


@pytest.mark.parametrize("k", [2, 4])
def test_epistasis_is_the_mean_over_backgrounds(k):
    found, _ = landscape(k, ["log-pool", "mlm"], noise=0.5)
    values = found.of("log-pool")
    pairs = found.epistasis("log-pool")
    assert len(pairs) == math.comb(k, 2)
    for (i, j), one in zip(itertools.combinations(range(k), 2), pairs, strict=True):
        each = {}
        for cell in itertools.product((0, 1), repeat=k):
            if not cell[i] and not cell[j]:
                with_bits = {
                    bits: float(
                        values[
                            tuple(
                                dict(zip((i, j), bits, strict=True)).get(t, cell[t])
                                for t in range(k)
                            )
                        ]
                    )
                    for bits in itertools.product((0, 1), repeat=2)
                }
                each[cell] = with_bits[1, 1] - with_bits[1, 0] - with_bits[0, 1] + with_bits[0, 0]
        assert len(each) == 2 ** (k - 2)
        assert one.mean == pytest.approx(np.mean(list(each.values())))
        assert one.wildtype == pytest.approx(each[(0,) * k])
        assert tuple(map(str, one.mutations)) == (MUTATIONS[i], MUTATIONS[j])
    assert [one.mean for one in found.epistasis("mlm")] == pytest.approx([0] * len(pairs), abs=1e-9)


def test_two_mutations_are_those_of_mutation_effect():
    lm, _ = pairwise_lm(12, noise=0.5)
    found = lm.landscape(SEQUENCE, MUTATIONS[:2], methods=["log-pool"], settings=QUIET)
    both = ":".join(MUTATIONS[:2])
    letters = sorted({letter for one in MUTATIONS[:2] for letter in (one[0], one[-1])})
    same = lm.mutations(SEQUENCE, both, support=letters, settings=QUIET)
    # other letters change the marginals, so only what both have in common is the same
    assert found.epistasis()[0].mean == pytest.approx(same.interaction, abs=1e-4)


# --- what runs ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 6])
def test_all_methods_but_orders_share_their_rows(k):
    methods = [name for name in landscape_methods(k) if name != "orders"]
    found, model = landscape(k, methods, noise=0.5)
    assert found.forward_passes == len(model.rows) == k * 2 ** (k - 1) + 1
    assert found.forward_passes == planned(k, methods)
    assert len(set(model.rows)) == len(model.rows)
    for method in methods:
        alone, model = landscape(k, [method], noise=0.5)
        np.testing.assert_allclose(alone.of(), found.of(method), atol=1e-9, err_msg=method)
        assert alone.forward_passes == len(model.rows) == planned(k, [method])


@pytest.mark.parametrize("k", [2, 3, 6])
def test_orders_read_every_part_once(k):
    found, model = landscape(k, ["orders", "log-pool"], noise=0.5)
    assert found.forward_passes == len(model.rows) == len(set(model.rows)) == 3**k - 2**k
    assert planned(k, ["orders", "log-pool"]) == 3**k - 2**k


@pytest.mark.slow
@pytest.mark.parametrize("k", [8, *(pytest.param(k, marks=pytest.mark.long) for k in (11, 12))])
def test_many_mutations_are_exact(k):
    methods = ["log-pool", "hcb-path", "ag", "pseudo-gibbs", "mrf"]
    found, model = landscape(k, methods)
    assert len(model.rows) == k * 2 ** (k - 1) + 1
    expected = truth(model, SEQUENCE, MUTATIONS[:k])
    for method in ("log-pool", "hcb-path", "ag", "pseudo-gibbs"):
        np.testing.assert_allclose(found.of(method).numpy(), expected, atol=2e-3, err_msg=method)
    assert len(found.to_rows()) == 2**k


def test_results_do_not_depend_on_the_batch_size():
    lm, _ = pairwise_lm(12, noise=0.5)
    each = [
        lm.landscape(
            SEQUENCE, MUTATIONS[:4], settings=unmask.Settings(progress=False, batch_size=size)
        ).of()
        for size in (1, 5, 64)
    ]
    for one in each[1:]:
        np.testing.assert_allclose(one, each[0], atol=1e-9)


@pytest.mark.slow
def test_a_long_sequence_is_cut_to_a_window_around_the_mutations():
    lm = unmask.load(build("esm"))
    long, mutations = "ACDEFGHIKLMNPQRSTVWY" * 5, "A41C:F45G:K49L"
    found = lm.landscape(long, mutations, methods=["log-pool"], settings=QUIET)
    (same,) = lm.variants(long, [mutations], method="log-pool", settings=QUIET)
    assert found.window == same.window
    assert float(found.of()[1, 1, 1]) == pytest.approx(same.score, abs=1e-6)


# --- rows --------------------------------------------------------------------------------------


def test_rows_name_every_combination_once():
    lm, _ = pairwise_lm(12, noise=0.5)
    # in any order and notation
    given = f"{MUTATIONS[2].lower()},{MUTATIONS[0]}:{MUTATIONS[1]}"
    found = lm.landscape(SEQUENCE.lower(), given, methods=["log-pool", "mrf"])
    rows = found.to_rows()
    a, b, c = MUTATIONS[:3]
    assert [row["mutant"] for row in rows] == [
        *("wt", a, b, c, f"{a}:{b}", f"{a}:{c}", f"{b}:{c}", f"{a}:{b}:{c}")
    ]
    assert [row["mutation_count"] for row in rows] == [0, 1, 1, 1, 2, 2, 2, 3]
    assert rows[0]["log-pool"] == rows[0]["mrf"] == 0
    assert rows[5]["mrf"] == float(found.of("mrf")[1, 0, 1])
    assert [row["log-pool"] for row in rows[1:4]] == found.single()
    best = found.best(3, "mrf")
    assert [row["mrf"] for row in best] == sorted((row["mrf"] for row in rows), reverse=True)[:3]
    assert repr(found) == "<Landscape of 3 mutations, 8 combinations, by log-pool, mrf>"


@pytest.mark.parametrize(
    ("mutations", "methods", "why"),
    [
        (MUTATIONS[:1], ["log-pool"], "at least two mutations, not of A1I alone"),
        ([*MUTATIONS, "A1C"], ["log-pool"], "both at position 1"),
        (["A1A", "C2D"], ["log-pool"], "A1A changes nothing"),
        (["A1C", "D2E"], ["log-pool"], "the sequence has C at position 2"),
        (["A1C", "C99D"], ["log-pool"], "no position 99"),
        (["A1C", "nonsense"], ["log-pool"], "'nonsense' in 'A1C:nonsense' is not a mutation"),
        (["A1B", "C2D"], ["log-pool"], "A1B: this model has no token for residue B"),
        (MUTATIONS[:9], ["orders"], "orders of 9 mutations would take 19,171 forward passes"),
        (MUTATIONS[:2], ["sweep"], "no method 'sweep' of landscapes"),
        (MUTATIONS[:2], ["nonsense"], "no method 'nonsense'"),
        (MUTATIONS[:2], [], "methods is a list of names"),
        (MUTATIONS[:2], "log-pool", "methods is a list of names"),
    ],
)
def test_what_cannot_be_is_one_line_and_runs_nothing(mutations, methods, why):
    lm, model = pairwise_lm(12)
    with pytest.raises(unmask.UnmaskError, match=why) as raised:
        lm.landscape(SEQUENCE, mutations, methods=methods)
    assert "\n" not in str(raised.value)
    assert not model.rows


def test_thirteen_mutations_are_too_many():
    lm, model = pairwise_lm(13)
    sequence = "A" * 13
    with pytest.raises(unmask.ClozeError, match=r"12 mutations at most, 24,577 .* 53,249"):
        lm.landscape(sequence, [f"A{n}C" for n in range(1, 14)])
    assert not model.rows


def test_a_method_that_is_not_there():
    found, _ = landscape(2, ["log-pool"])
    with pytest.raises(unmask.MethodError, match="is by log-pool, not by 'mrf'"):
        found.epistasis("mrf")


# --- the command -------------------------------------------------------------------------------

CHAIN = "MKALWYAGT"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return saved("esm", tmp_path_factory.mktemp("esm"))


@pytest.fixture
def command(folder, capsys):
    def run(*arguments: str, code: int = 0) -> tuple[str, str]:
        done = cli.main(["landscape", "-m", folder, "--sequence", CHAIN, *arguments])
        out, err = capsys.readouterr()
        assert done == code, err
        return out, err

    return run


@pytest.mark.slow
def test_tables_for_people_and_all_rows_in_a_file(command, folder, tmp_path):
    place = tmp_path / "all.csv"
    out, err = command("L4K", "K2R:Y6F", "--method", "log-pool,mrf", "--top", "2", "-o", str(place))
    found = unmask.load(folder).landscape(
        CHAIN, "K2R:L4K:Y6F", methods=["log-pool", "mrf"], settings=QUIET
    )
    alone, pairs, best = (part.splitlines() for part in out.strip().split("\n\n"))
    assert alone[0].split() == ["alone", "log-pool", "mrf"]
    values = zip(found.single("log-pool"), found.single("mrf"), strict=True)
    names = ("K2R", "L4K", "Y6F")
    for line, name, (one, other) in zip(alone[1:], names, values, strict=True):
        assert line.split() == [name, f"{one:+.3f}", f"{other:+.3f}"]
    assert len(pairs) == len(best) == 3
    strongest = max(found.epistasis(), key=lambda pair: abs(pair.mean))
    assert pairs[1].split()[:2] == [
        ":".join(map(str, strongest.mutations)),
        f"{strongest.mean:+.3f}",
    ]
    assert best[1].split()[0] == found.best(1)[0]["mutant"]
    assert "3 mutations, 8 combinations: 13 forward passes" in err
    assert f"J = {found.incompatibility:.3f} bits; 13 forward passes" in err
    with place.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["mutant"] for row in rows] == [row["mutant"] for row in found.to_rows()]
    for row, expected in zip(rows, found.to_rows(), strict=True):
        assert float(row["mrf"]) == pytest.approx(expected["mrf"], abs=1e-5)


def test_two_mutations_have_one_background(command):
    _, err = command("K2R", "L4K", "--method", "mrf")
    assert "the mean over 1 background;" in err


@pytest.mark.slow
def test_json_has_everything(command):
    out, err = command("K2R", "L4K", "--json", "--quiet", "--method", "all")
    found = json.loads(out)
    assert err == ""
    assert found["mutations"] == ["K2R", "L4K"]
    assert len(found["combinations"]) == 4
    assert set(found["epistasis"]) == set(landscape_methods(2))
    assert found["forward_passes"] == 5


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["K2R"], "at least two mutations"),
        (["K2R", "K2A"], "both at position 2"),
        (["K2R", "L4K", "--method", "sweep"], "no method 'sweep' of landscapes"),
        (["K2R", "L4K", "--top", "0"], "--top takes a number from 1"),
        (["K2R", "L4K", "-o", "all.txt"], "does not end with .csv"),
        (["K2R", "L4K", "--figure", "all.txt"], "a figure is a file in"),
        (["K2R", "L4K", "-o", "nowhere/all.csv"], "cannot write"),
    ],
)
def test_bad_input_is_one_line(command, monkeypatch, tmp_path, arguments, why):
    monkeypatch.chdir(tmp_path)
    out, err = command(*arguments, code=2)
    assert out == ""
    assert why in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_figure_is_written(command, tmp_path):
    pytest.importorskip("matplotlib")
    place = tmp_path / "all.svg"
    command("K2R", "L4K", "Y6F", "--figure", str(place))
    assert "K2R" in place.read_text("utf-8")


@pytest.mark.assets("antiberty, whose landscape is known")
@pytest.mark.real
def test_an_antibody_model_has_the_singles_of_a_mask_at_a_time():
    lm = unmask.load(str(real_model("antiberty")))
    chain = (
        "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKG"
        "RFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS"
    )
    found = lm.landscape(chain, "A106Y:M107F", methods=["hcb-path", "log-pool"], settings=QUIET)
    single = [lm.mutations(chain, one, settings=QUIET).log_odds for one in ("A106Y", "M107F")]
    assert found.single("hcb-path") == pytest.approx(single, abs=1e-4)
    assert found.epistasis("log-pool")[0].mean == pytest.approx(8.029, abs=0.01)


def test_the_example_of_the_help_runs(folder, capsys, monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(cli.landscape.LandscapeCommand.EXAMPLE)[1:]
    words[words.index("-m") + 1] = folder
    assert cli.main(words) == 0
    assert (tmp_path / "all.csv").exists()
    assert "K2R" in capsys.readouterr().out

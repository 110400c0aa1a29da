"""All double mutants of two residues of an antibody, against a plain loop over the model."""

import numpy as np
import pytest
import torch
from assets import real_model
from snippets import CHAIN
from transformers import AutoModelForMaskedLM, AutoTokenizer

import unmask

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
# half of the chain, for time
SEQUENCE = CHAIN[60:]
PAIR = (41, 42)
# the model's float32 rounds: measured 3e-6 and, as `mrf` counts all twice, 7e-6; up to 7e-6 and
# 1.5e-5 at other pairs
LOOP_ERROR = {"log-pool": 1e-5, "mrf": 2e-5}


@pytest.fixture(scope="module")
def antiberty() -> unmask.LanguageModel:
    return unmask.load(real_model("antiberty"))


@pytest.fixture(scope="module")
def plain_tables() -> np.ndarray:
    """log q(a|b) + log q(b|a), forty passes by hand in float64: no part of this package."""
    path = real_model("antiberty")
    model = AutoModelForMaskedLM.from_pretrained(path, dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(path)
    letters = tokenizer.convert_tokens_to_ids(list(RESIDUES))
    # a residue's number is its token's index: one token stands in front
    plain = tokenizer(" ".join(SEQUENCE))["input_ids"]

    def log_table(outcome: int, context: int) -> np.ndarray:
        rows = []
        for token in letters:
            ids = list(plain)
            ids[outcome], ids[context] = tokenizer.mask_token_id, token
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[0, outcome]
            rows.append(torch.log_softmax(logits[letters], dim=0).numpy())
        return np.stack(rows)

    return log_table(*PAIR).T + log_table(*reversed(PAIR))


@pytest.mark.real
@pytest.mark.assets("the antibody model")
@pytest.mark.parametrize("method", ["log-pool", "mrf"])
def test_an_antibodys_interactions_are_those_of_a_plain_loop(antiberty, plain_tables, method):
    """All 19 x 19 double mutants of two residues, from 20 + 20 rows and one for captured mass."""
    # both joints are a power of q(a|b) q(b|a) times factors of one blank, which cancel
    log_p = plain_tables * {"log-pool": 0.5, "mrf": 1.0}[method]
    a, b = (RESIDUES.index(SEQUENCE[position - 1]) for position in PAIR)
    expected = log_p - log_p[a] - log_p[:, [b]] + log_p[a, b]

    quiet = unmask.Settings(progress=False, announce=False)
    cloze = antiberty.cloze(" ".join(SEQUENCE), blanks=list(PAIR))
    joint = antiberty.joint(cloze, method=method, support="amino-acids", settings=quiet)
    assert joint.diagnostics["forward_passes"] == 41
    both = RESIDUES.index("A"), RESIDUES.index("Y")
    interaction = joint.interaction(["A", "Y"], [SEQUENCE[position - 1] for position in PAIR])
    assert interaction == pytest.approx(expected[both], abs=1e-5)
    assert abs(interaction) > 0.01
    log_rows = joint.log_rows(slice(0, 20)).numpy()
    interactions = log_rows - log_rows[a] - log_rows[:, [b]] + log_rows[a, b]
    assert np.abs(interactions - expected).max() < LOOP_ERROR[method]

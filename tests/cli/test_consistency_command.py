"""`unmask consistency`: rows, the card, its YAML, and models side by side."""

import json
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results
from tiny_tokenizers import save_bert

from unmask import cli
from unmask.markup import markdown
from unmask.sequences.consistency.result import Consistency
from unmask.sequences.consistency.statistics import command

pytestmark = pytest.mark.usefixtures("read_once")

ROWS = [
    {"text": "the cat saw the dog.", "contrast": "the cat saw the mat."},
    {"text": "the man saw the woman.", "contrast": "the man the woman."},
    {"text": "the dog saw a man."},
    {"text": ""},
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_bert(tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="module")
def folder(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("consistency")
    (place / "own.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    assert cli.main(_command(place / "own.jsonl", model, f"{place / 'out'}/")) == 0
    return place / "out"


def _command(source: Path, model: str, output: str, *more: str) -> list[str]:
    given = [
        "consistency",
        str(source),
        "-m",
        model,
        "--random-orders",
        "4",
        "-o",
        output,
        "--quiet",
    ]
    return [*given, *more]


@pytest.mark.slow
def test_the_hub_reads_the_card(folder: Path) -> None:
    content = (folder / "_card.md").read_text()
    card = ModelCard(content)
    results = card.data.eval_results
    assert card.data.model_name == "bert"
    by_type = {one.metric_type: one for one in results}
    numbers = json.loads((folder / "_card.json").read_text())["results"]
    assert set(by_type) == {f"unmask_{key}" for key in numbers}
    for key, number in numbers.items():
        one = by_type[f"unmask_{key}"]
        assert one.metric_value == pytest.approx(number["value"], abs=1e-6)
        assert one.dataset_name == "own.jsonl"
        assert one.metric_args["texts"] == number["texts"]
    # the parser of the hub, on the YAML alone
    head = yaml.safe_load(content.split("---")[1])
    name, parsed = model_index_to_eval_results(head["model-index"])
    assert (name, len(parsed)) == ("bert", len(results))


@pytest.mark.slow
def test_the_card_has_what_made_it_and_shows_the_worst_pairs(folder: Path, model: str) -> None:
    content = (folder / "_card.md").read_text()
    options = "--random-orders 4 --max-passes 401 --seed 0"
    assert f"unmask consistency own.jsonl -m bert {options}\n" in content
    assert str(folder.parent) not in content
    assert "](_card.png)" in content
    assert (folder / "_card.png").read_bytes()[:4] == b"\x89PNG"
    worst = content.split("## Where it contradicts itself most")[1]
    assert "J = " in worst
    assert any(row["text"] in worst for row in ROWS if row["text"])
    config = json.loads((folder / "_card.json").read_text())["config"]
    assert config["model"] == "bert"
    assert config["orders"] == 4


def test_texts_and_names_are_inert_in_the_card() -> None:
    text = "<script>alert(1)</script> | [x](y)\n# head"
    logs = dict.fromkeys(("log_pool", "pseudo_gibbs", "first_then_second", "ensemble"), -4.0)
    row = {"text_id": "a", "part": "adjacent", "first": 0, "second": 1, "distance": 1, **logs}
    row |= {"incompatibility": 0.5, "mutual_information": 1.0, "marginal_divergence": 0.0}
    row |= {"second_then_first": -5.0, "text": text, "first_token": "<b>", "second_token": "|"}
    card = Consistency([row], {"model": "a<b>\n---", "corpus": "c | d"}).card()
    body = card.split("---\n", 2)[2].split("```")[0]
    assert "<script>" not in body
    assert "<b>" not in body
    assert markdown(text) in body
    assert ModelCard(card).data.eval_results
    assert command({"model": "a; rm -rf /", "corpus": "my file.csv"}) == (
        "unmask consistency 'my file.csv' -m 'a; rm -rf /'"
    )

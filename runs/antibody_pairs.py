"""Measure how ten positions of an antibody depend on each other, for docs/results/variants.md.

    python runs/antibody_pairs.py --model NAME_OR_DIR [--method NAME] [--output FILE.json]

Numbers go to a JSON file and to a CSV file in tables/, the picture to an SVG beside it. A pair is
also computed by a plain loop over the model in float64, and compared.
"""

import argparse
import json
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import marked_page
import torch
from one_line import in_one_line
from torch import Tensor

import unmask
from unmask.names import ALPHABETS
from unmask.plots.saving import save_figure
from unmask.printable import printable
from unmask.sequences.residues import residue_cloze

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]

# Variable domain of trastuzumab's heavy chain (Carter et al., PNAS 89:4285, 1992), chain B of the
# structure 1N8Z (Cho et al., Nature 421:756, 2003).
SEQUENCE = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFNIKDTYIHWVRQAPGKGLEWVARIYPTNGYTRYADSVKG"
    "RFTISADTSKNTAYLQMNSLRAEDTAVYYCSRWGGDGFYAMDYWGQGTLVTVSS"
)
# The ten positions of the third loop that Mason et al. (Nature Biomedical Engineering 5:600, 2021)
# varied: WGGDGFYAMD.
POSITIONS = tuple(range(99, 109))
COMPARED = (101, 104)
QUIET = unmask.Settings(progress=False, announce=False)
# of unmask.evaluation.reports.figures
LOW, HIGH = "#CC6677", "#332288"


def record(lm: unmask.LanguageModel, source: str, method: str) -> Record:
    started = time.perf_counter()
    found = lm.interactions(SEQUENCE, POSITIONS, method=method, settings=QUIET)
    seconds = time.perf_counter() - started
    return {
        "model": shown_name(source),
        "revision": lm.revision,
        "method": method,
        "sequence": SEQUENCE,
        "positions": list(POSITIONS),
        "forward_passes": sum(pair.forward_passes for pair in found),
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "largest_error": {"positions": list(COMPARED), "nats": largest_error(lm)},
        "pairs": [rounded(pair.to_dict()) for pair in found],
        "versions": {
            "unmask": unmask.__version__,
            **{name: version(name) for name in ("torch", "transformers")},
        },
    }


def shown_name(name: str) -> str:
    """A hub name whole, of a folder the last part: the rest is of this machine."""
    return Path(name).resolve().name if Path(name).exists() else name


def rounded(value: Record) -> Record:
    return {k: round(v, 6) if isinstance(v, float) else v for k, v in value.items()}


# --- the same by hand --------------------------------------------------------------------------


def largest_error(lm: unmask.LanguageModel) -> float:
    """Over all double mutants of one pair, how far `log-pool` is from a loop in float64."""
    cloze = residue_cloze(lm, SEQUENCE, COMPARED)
    letters = ALPHABETS["amino-acids"]
    joint = lm.joint(cloze, method="log-pool", support="amino-acids", settings=QUIET)
    place = [letters.index(SEQUENCE[position - 1]) for position in COMPARED]
    found = odds_ratios(joint.log_rows(slice(0, len(letters))), place)
    return float((found - by_hand(lm, cloze, letters, place)).abs().max())


def by_hand(
    lm: unmask.LanguageModel, cloze: unmask.Cloze, letters: str, place: list[int]
) -> Tensor:
    """Interactions under log-pool, one pass a row: the mean of those of both conditionals.

    log-pool is sqrt(q(a|b) q(b|a) r_a r_b), and in a log odds ratio the r cancel.
    """
    model = lm.model.model.double()  # type: ignore[attr-defined]
    tokens = lm.support("amino-acids").ids.tolist()
    tables = []
    for outcome in (0, 1):
        columns = []
        for token in tokens:
            ids = list(cloze.ids)
            ids[cloze.positions[1 - outcome]] = token
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids])).logits[0, cloze.positions[outcome]]
            columns.append(logits[tokens])
        tables.append(torch.stack(columns, dim=1 if outcome == 0 else 0))
    model.float()
    return (odds_ratios(tables[0], place) + odds_ratios(tables[1], place)) / 2


def odds_ratios(table: Tensor, place: list[int]) -> Tensor:
    """Log odds ratios of every double mutant against the wild type; normalisers cancel."""
    a, b = place
    return table - table[a] - table[:, b, None] + table[a, b]


# --- what is written ------------------------------------------------------------------------------


def table(pairs: list[Record]) -> Iterator[str]:
    """All pairs, that with most mutual information first."""
    yield "| positions | mutual information, bits | strongest interaction, nats | of | J, bits |"
    yield "|---|---|---|---|---|"
    for pair in sorted(pairs, key=lambda pair: -float(pair["mutual_information"])):
        bits = pair["incompatibility"]
        yield (
            f"| {pair['positions'][0]}, {pair['positions'][1]} "
            f"| {pair['mutual_information']:.3f} | {pair['interaction']:+.2f} "
            f"| {':'.join(pair['mutations'])} | {'-' if bits is None else f'{bits:.3f}'} |"
        )


def heat_maps(found: Record) -> "Figure":
    """Mutual information on the left, strongest interactions on the right."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.2, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    rising = LinearSegmentedColormap.from_list("rising", ["#FFFFFF", HIGH])
    both = LinearSegmentedColormap.from_list("both", [LOW, "#FFFFFF", HIGH])
    most = max(float(pair["mutual_information"]) for pair in found["pairs"])
    widest = max(abs(float(pair["interaction"])) for pair in found["pairs"])
    draw(left, found, "mutual_information", "{:.2f}", rising, (0.0, most))
    draw(right, found, "interaction", "{:+.1f}", both, (-widest, widest))
    left.set_title("Mutual information, bits", loc="left", fontsize=9, fontweight="bold")
    right.set_title("Strongest interaction, nats", loc="left", fontsize=9, fontweight="bold")
    figure.suptitle(printable(f"{found['model']}, {found['method']}, trastuzumab VH"), fontsize=10)
    return figure


def draw(
    panel: Any, found: Record, key: str, form: str, colours: Any, ends: tuple[float, float]
) -> None:
    positions = found["positions"]
    cells = [[float("nan")] * len(positions) for _ in positions]
    for pair in found["pairs"]:
        column, row = (positions.index(position) for position in pair["positions"])
        cells[row][column] = pair[key]
        dark = abs(pair[key]) > 0.6 * ends[1]
        colour = "white" if dark else "black"
        said = form.format(pair[key])
        panel.text(column, row, said, ha="center", va="center", fontsize=6.5, color=colour)
    panel.imshow(cells, cmap=colours, vmin=ends[0], vmax=ends[1])
    names = [f"{found['sequence'][position - 1]}{position}" for position in positions]
    panel.set_xticks(range(len(names) - 1), names[:-1], fontsize=7, rotation=45)
    panel.set_yticks(range(1, len(names)), names[1:], fontsize=7)
    panel.set_xlim(-0.5, len(names) - 1.5)
    panel.set_ylim(len(names) - 0.5, 0.5)
    panel.spines[:].set_visible(False)
    panel.tick_params(length=0)


def write(found: Record, output: Path) -> None:
    (output.parent / "tables").mkdir(parents=True, exist_ok=True)
    said = json.dumps(found, indent=2, allow_nan=False)
    output.write_text(said + "\n", encoding="utf-8")
    whole = output.parent / "tables" / f"{output.stem}.csv"
    whole.write_text(marked_page.as_csv(table(found["pairs"])), encoding="utf-8")
    save_figure(heat_maps(found), output.with_suffix(".svg"))


@in_one_line
def main() -> None:
    parser = argparse.ArgumentParser(description="Pairs of positions in an antibody.")
    parser.add_argument("--model", required=True, help="hub name or folder of a model of proteins")
    parser.add_argument("--method", default="log-pool")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("docs/results/antibody-pairs.json"))
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    lm = unmask.load(chosen.model, device="cpu")
    write(record(lm, chosen.model, chosen.method), chosen.output)


if __name__ == "__main__":
    raise SystemExit(main())

#!/usr/bin/env bash
# BLiMP's 67 paradigms by every way to compare two sentences, and a page about them.
#
#   UNMASK_TEST_ASSETS=DIR [MODEL=models/tiny-english] [PAIRS=100] runs/blimp.sh [PARADIGM ...]
#
# PAIRS pairs of each paradigm, the first in the hashed order of their ids, so that fewer are a random
# part of more. Rows (ids and numbers, no text) are one file per method in runs/rows/blimp-MODEL-PAIRS,
# each there whole or not at all; those that are there are not measured again. OUTPUT is the page, with
# its rows as .csv next to it: docs/results/blimp-MODEL.md by default. docs/results/texts.md was measured
# with caption-bert, and has a method that was removed since.
# About 140 forward passes per pair: with tiny-english and 100 pairs some half an hour of one core,
# extrapolated from 10.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

assets=${UNMASK_TEST_ASSETS:?set it to the folder with data/blimp}
model=${MODEL:-models/tiny-english}
pairs=${PAIRS:-100}
python=${PYTHON:-python}
name=$(basename "$model")
rows=${ROWS:-runs/rows/blimp-$name-$pairs}
mkdir -p "$rows"

only=()
for paradigm in "$@"; do
    only+=(--paradigm "$paradigm")
done
number=0
for how in "pll" "pll-word-l2r" "hcb-path --orders 8" "unmasking --order left-to-right" \
    "unmasking --order surest" "unmasking --order margin"; do
    # numbered, so that the page has them in this order
    number=$((number + 1))
    file=$rows/$number-${how// --order* /-}.jsonl
    if [ -e "$file" ]; then
        continue
    fi
    echo "$how" >&2
    # shellcheck disable=SC2086
    "$python" -m unmask score --model "$model" --blimp "$assets/data/blimp" "${only[@]}" \
        --limit "$pairs" --method $how --no-text --quiet --output "$file" > /dev/null
done
"$python" runs/blimp_report.py --rows "$rows" --output "${OUTPUT:-docs/results/blimp-$name.csv}"

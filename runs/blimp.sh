#!/usr/bin/env bash
# BLiMP's 67 paradigms by every way to compare two sentences, and a page about them.
#
#   UNMASK_TEST_ASSETS=DIR [PAIRS=1000] runs/blimp.sh [PARADIGM ...]
#
# PAIRS pairs of each paradigm, the first in the hashed order of their ids, so that fewer are a random
# part of more. Rows (ids and numbers, no text) are one file per paradigm in runs/rows/blimp-PAIRS, each
# there whole or not at all; those that are there are not measured again. OUTPUT is another place for
# the page than runs/rows/blimp-PAIRS.md: docs/results/blimp.md has a method that was removed since.
# Some 80 forward passes per pair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

assets=${UNMASK_TEST_ASSETS:?set it to the folder with models/caption-bert and data/blimp}
pairs=${PAIRS:-1000}
python=${PYTHON:-python}
rows=${ROWS:-runs/rows/blimp-$pairs}
mkdir -p "$rows"

if [ $# -eq 0 ]; then
    for file in "$assets"/data/blimp/*.jsonl; do
        set -- "$@" "$(basename "$file" .jsonl)"
    done
fi
for paradigm in "$@"; do
    if [ -e "$rows/$paradigm.jsonl" ]; then
        continue
    fi
    echo "$paradigm" >&2
    "$python" -m unmask score --model "$assets/models/caption-bert" \
        --blimp "$assets/data/blimp" --paradigm "$paradigm" --limit "$pairs" \
        --method pll,pll-word-l2r,hcb-path --orders 8 \
        --no-text --quiet --output "$rows/$paradigm.jsonl" > /dev/null
done
"$python" runs/blimp_report.py --rows "$rows" --output "${OUTPUT:-$rows.md}"

#!/usr/bin/env bash
# HCB under many pivots on masked pairs of SNLI, and the CSV files of docs/results/replication.md.
#
#   UNMASK_TEST_ASSETS=DIR runs/pivots.sh [EXAMPLES]
#
# EXAMPLES contiguous and as many random pairs of the test sentences (45 each), some ten seconds of
# one core an example; what is done already (runs/rows/) is not done again. The other constructions
# on the page are those of docs/results/better-joints.jsonl, so of the same model.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

assets=${UNMASK_TEST_ASSETS:?set it to the folder with models/caption-bert and data/snli}
examples=${1:-45}
python=${PYTHON:-python}
rows=runs/rows/pivots.jsonl
mkdir -p runs/rows

"$python" runs/pivots.py --model "$assets/models/caption-bert" \
    --corpus "$assets/data/snli/test.jsonl" --limit "$examples" --output "$rows"
cp "$rows" docs/results/pivots.jsonl
"$python" runs/pivots_report.py --rows docs/results/pivots.jsonl \
    --joints docs/results/better-joints.jsonl --output docs/results/replication.md

#!/usr/bin/env bash
# Every construction on masked pairs of SNLI, and CSV files of docs/results/beyond-the-paper.md.
#
#   UNMASK_TEST_ASSETS=DIR runs/better_joints.sh [EXAMPLES]
#
# EXAMPLES contiguous and as many random pairs of the test sentences (100 each), half as many of the
# dev sentences for the strength of the pseudo-counts. Some forty seconds of one core an example;
# what is done already (runs/rows/) is not done again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

assets=${UNMASK_TEST_ASSETS:?set it to the folder with models/caption-bert and data/snli}
examples=${1:-100}
python=${PYTHON:-python}
rows=runs/rows
mkdir -p "$rows"

measure() {
    "$python" runs/better_joints.py --model "$assets/models/caption-bert" "$@"
}

for mask in contiguous random; do
    measure --corpus "$assets/data/snli/dev.tsv" --mask "$mask" --limit $((examples / 2)) \
        --output "$rows/dev-$mask.jsonl" --strengths
    measure --corpus "$assets/data/snli/test.jsonl" --mask "$mask" --limit "$examples" \
        --output "$rows/test-$mask.jsonl"
done
cat "$rows"/test-{contiguous,random}.jsonl > docs/results/better-joints.jsonl
cat "$rows"/dev-{contiguous,random}.jsonl > docs/results/pseudo-counts.jsonl
"$python" runs/better_joints_report.py --rows docs/results/better-joints.jsonl \
    --strengths docs/results/pseudo-counts.jsonl --output docs/results/beyond-the-paper.md

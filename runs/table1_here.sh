#!/usr/bin/env bash
# The protocol of the paper's Table 1 with a model and corpora that fit a laptop: caption-bert on
# SNLI's test sentences (both masks) and on XSum summaries (contiguous), every construction.
#
#   UNMASK_TEST_ASSETS=DIR runs/table1_here.sh            measure, then write the pages
#   UNMASK_TEST_ASSETS=DIR runs/table1_here.sh --report   write the pages of what is done so far
#
#   EXAMPLES   examples a mask of SNLI (250)
#   SUMMARIES  examples of XSum (1000: as many as fit the model's 64 positions)
#   PROCESSES  how many work side by side, one thread each (2)
#   OUTPUT     folder of the runs (runs/rows/table1-here)
#   RESULTS    folder of the pages (docs/results)
#   PARSER     spaCy model for syntactic distances (en_core_web_sm)
#
# About ten seconds of one core an example of SNLI, twenty of XSum. Stopped at any time and started
# again, it does what is missing; the pages say how much that is. Examples come in hashed order, so
# that what is done so far is a random sample.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

assets=${UNMASK_TEST_ASSETS:?set it to the folder with models/caption-bert, data/snli and data/xsum}
processes=${PROCESSES:-2}
output=${OUTPUT:-runs/rows/table1-here}
export OMP_NUM_THREADS=1

# measure RUN CORPUS OPTION...: one run, shared by the processes
measure() {
    local run=$1 corpus=$2 shard failed=0
    local -a started=()
    shift 2
    for ((shard = 0; shard < processes; shard++)); do
        unmask evaluate "$corpus" -m "$assets/models/caption-bert" -o "$output/$run" \
            --shard "$shard/$processes" "$@" &
        started+=($!)
    done
    for shard in "${started[@]}"; do
        wait "$shard" || failed=1
    done
    return $failed
}

if [[ ${1:-} != --report ]]; then
    measure snli "$assets/data/snli/test.jsonl" --corpus-name "SNLI test" \
        --mask contiguous,random --examples "${EXAMPLES:-250}"
    measure xsum "$assets/data/xsum/test-1000.txt" --corpus-name "XSum test-1000" \
        --mask contiguous --examples "${SUMMARIES:-1000}"
fi

results=${RESULTS:-docs/results}
published=$results/table1-here
rm -rf "$published"
mkdir -p "$published"
for run in snli xsum; do
    unmask report "$output/$run" --copy-to "$published/$run"
done
unmask report "$published/snli" "$published/xsum" --figures "$published/figures" \
    --parser "${PARSER:-en_core_web_sm}" --corpus "$assets/data/snli/test.jsonl" \
    --corpus "$assets/data/xsum/test-1000.txt" --table distance,syntax \
    --output "$published/distance.txt"
"${PYTHON:-python}" runs/table1_here_report.py --runs "$published/snli" "$published/xsum" \
    --figures "$published/figures" --output "$results/table1-here.md"

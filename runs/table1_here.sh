#!/usr/bin/env bash
# The protocol of the paper's Table 1 with a model and corpora that fit a laptop: caption-bert on
# SNLI's test sentences (both masks) and on XSum summaries (contiguous), every construction.
#
#   UNMASK_TEST_ASSETS=DIR runs/table1_here.sh            measure, then write the pages
#   UNMASK_TEST_ASSETS=DIR runs/table1_here.sh --report   write the pages of what is done so far
#
#   EXAMPLES   examples per mask of SNLI (250)
#   SUMMARIES  examples of XSum (1000: as many as fit the model's 64 positions)
#   PROCESSES  how many work side by side, one thread each (2)
#   OUTPUT     folder of the runs (runs/rows/table1-here)
#   RESULTS    folder of the pages (docs/results)
#   PARSER     spaCy model for syntactic distances (en_core_web_sm)
#
# About ten seconds of one core per example of SNLI, twenty per example of XSum. Stopped at any time and started
# again, it does what is missing; the pages say how much that is. Examples come in hashed order, so
# that what is done so far is a random sample.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

assets=${UNMASK_TEST_ASSETS:?set it to the folder with models/caption-bert, data/snli and data/xsum}
processes=${PROCESSES:-2}
output=${OUTPUT:-runs/rows/table1-here}
export OMP_NUM_THREADS=1

python=${PYTHON:-python}
worst=0
started=()
# jobs in the background ignore an interrupt: end them with this script
trap '[[ ${#started[@]} -eq 0 ]] || kill "${started[@]}" 2> /dev/null || true' EXIT

unmask() {
    "$python" -c 'import sys, unmask.cli; sys.exit(unmask.cli.main())' "$@"
}

# measure RUN CORPUS OPTION...: one run, shared by the processes; failed examples (exit code 1) are
# counted in the tables, anything worse ends here
measure() {
    local run=$1 corpus=$2 shard process code
    shift 2
    started=()
    for ((shard = 0; shard < processes; shard++)); do
        unmask evaluate "$corpus" -m "$assets/models/caption-bert" -o "$output/$run" \
            --shard "$shard/$processes" "$@" &
        started+=($!)
    done
    for process in "${started[@]}"; do
        code=0
        wait "$process" || code=$?
        ((code <= 1)) || exit "$code"
        ((code == 0)) || worst=$code
    done
    started=()
}

if [[ ${1:-} != --report ]]; then
    measure snli "$assets/data/snli/test.jsonl" --corpus-name "SNLI test" \
        --mask contiguous,random --examples "${EXAMPLES:-250}"
    measure xsum "$assets/data/xsum/test-1000.txt" --corpus-name "XSum test-1000" \
        --mask contiguous --examples "${SUMMARIES:-1000}"
fi

results=${RESULTS:-docs/results}
published=$results/table1-here
new=$(mktemp -d)
# what is published has ids and no text: no page --with-text is made here
for run in snli xsum; do
    unmask report "$output/$run" --copy-to "$new/$run" > /dev/null
done
unmask report "$new/snli" "$new/xsum" --figures "$new/figures" \
    --parser "${PARSER:-en_core_web_sm}" --corpus "$assets/data/snli/test.jsonl" \
    --corpus "$assets/data/xsum/test-1000.txt" --table distance > /dev/null
"$python" runs/table1_here_report.py --runs "$new/snli" "$new/xsum" --figures "$new/figures" \
    --output "$new/page.md"
# only now, when everything is there
rm -rf "$published"
mkdir -p "$results"
mv "$new/page.md" "$results/table1-here.md"
mv "$new" "$published"
chmod 755 "$published"
exit "$worst"

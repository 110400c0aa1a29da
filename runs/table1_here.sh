#!/usr/bin/env bash
# The protocol of the paper's Table 1 with a model and corpora that fit a laptop: SNLI's test
# sentences and XSum summaries, both masks; and pairs of SNLI's dev sentences, with every
# construction and exact, on which the default is chosen.
#
#   UNMASK_TEST_ASSETS=DIR runs/table1_here.sh            measure, then write the pages
#   UNMASK_TEST_ASSETS=DIR runs/table1_here.sh --report   write the pages of what is done so far
#
#   MODEL      the model (models/tiny-english)
#   EXAMPLES   examples per corpus and mask (250)
#   DEV        examples per mask of SNLI dev, exact (100)
#   DEV_HOW    more options of that run, such as --memory-limit 8GB, which tables of 29,000 tokens need
#              to be kept (none)
#   BESIDE     of these, how many per mask are sketched too (20)
#   TEST       options of the test runs (--precision 0.2 --max-passes 500);
#              TEST=--exact for exact ones, with every construction
#   PROCESSES  how many work side by side, one thread each (2)
#   OUTPUT     folder of the runs (runs/rows/table1-NAME, NAME being the model's)
#   RESULTS    folder of the pages (docs/results)
#   PARSER     spaCy model for syntactic distances (en_core_web_sm)
#
# Seconds of one core per example, with tiny-english: about 35 for SNLI and 50 for XSum exact, 5 and
# 7 sketched; what each run will take is printed and kept before it begins. Stopped at any time and started again, it does what is missing; the pages say how much
# that is. Examples come in hashed order, so that what is done so far is a random sample.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

assets=${UNMASK_TEST_ASSETS:?set it to the folder with data/snli and data/xsum}
model=${MODEL:-models/tiny-english}
name=$(basename "$model")
processes=${PROCESSES:-2}
output=${OUTPUT:-runs/rows/table1-$name}
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
    mkdir -p "$output"
    if [[ ! -f $output/$run.predicted.txt ]]; then
        unmask evaluate "$corpus" -m "$model" -o "$output/$run" "$@" --dry-run \
            | tee "$temporary/predicted.txt"
        mv "$temporary/predicted.txt" "$output/$run.predicted.txt"
    fi
    started=()
    for ((shard = 0; shard < processes; shard++)); do
        unmask evaluate "$corpus" -m "$model" -o "$output/$run" \
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

temporary=$(mktemp -d)
sketch=(--precision 0.2 --max-passes 500)
read -ra dev <<< "${DEV_HOW:-}"
read -ra how <<< "${TEST---precision 0.2 --max-passes 500}"
both=(--mask contiguous,random --examples "${EXAMPLES:-250}" "${how[@]}")
if [[ ${1:-} != --report ]]; then
    measure snli-dev "$assets/data/snli/dev.tsv" --corpus-name "SNLI dev" \
        --mask contiguous,random --examples "${DEV:-100}" --exact "${dev[@]}"
    measure snli-dev-sketched "$assets/data/snli/dev.tsv" --corpus-name "SNLI dev" \
        --mask contiguous,random --examples "${BESIDE:-20}" "${sketch[@]}"
    measure snli "$assets/data/snli/test.jsonl" --corpus-name "SNLI test" "${both[@]}"
    measure xsum "$assets/data/xsum/test-1000.txt" --corpus-name "XSum test-1000" "${both[@]}"
fi

results=${RESULTS:-docs/results}
published=$results/table1-$name
new=$temporary/table1-$name
mkdir "$new"
# what is published has ids and no text
for run in snli-dev snli-dev-sketched snli xsum; do
    [[ ! -d $output/$run ]] || unmask report "$output/$run" --copy-to "$new/$run" > /dev/null
    [[ ! -f $output/$run.predicted.txt ]] || cp "$output/$run.predicted.txt" "$new"
done
unmask report "$new/snli" "$new/xsum" --figures "$new/figures" --table distance > /dev/null
"$python" runs/syntactic_distances.py "$new/snli" "$new/xsum" --figures "$new/figures" \
    --parser "${PARSER:-en_core_web_sm}" \
    --corpus "$assets/data/snli/test.jsonl" "$assets/data/xsum/test-1000.txt"
# only now, when everything is there
rm -rf "$published"
mkdir -p "$results"
mv "$new" "$published"
chmod 755 "$published"
rmdir "$temporary"
"$python" runs/table1_here_report.py "$results"/table1-*/ --output "$results/table1.md"
"$python" runs/beyond_the_paper.py "$results"/table1-*/ --output "$results/which-joint.md"
shopt -s nullglob
"$python" runs/side_by_side.py "$results"/table1-*/ "$results"/other-languages/*/ \
    --output "$results/table1.md"
exit "$worst"

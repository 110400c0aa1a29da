#!/usr/bin/env bash
# Can contradiction be trained away? One model tuned in several ways ("arms") with the same number of
# forward passes, each measured on pairs of blanks, on BLiMP and on whole sentences; then the page.
#
#   UNMASK_TEST_ASSETS=DIR runs/tune_arms.sh            tune and measure, then write the page
#   UNMASK_TEST_ASSETS=DIR runs/tune_arms.sh --report   write the page of what is done so far
#
#   MODEL      the model (models/tiny-english)
#   ARMS       names of arms, separated by spaces (all of the list below); `start` is the model itself,
#              `control` what the others are compared with
#   PASSES     forward passes per arm (600000: 60 to 70 minutes of one core with tiny-english)
#   RATE       highest learning rate (3e-4)
#   TOKENS     tokens per blank of a penalty (8)
#   EVERY      a penalty in every n-th batch (2)
#   MEASURE    all, or dev: pairs of SNLI dev alone, enough to choose among weights (all)
#   EXAMPLES   pairs per mask of SNLI test (250); DEV of SNLI dev (250); XSUM of XSum (250); all are
#              estimated by unmask evaluate, about two seconds of a core each
#   EXACT      pairs per mask of SNLI test with exact tables (10; half a minute each), for ag and A-KL
#   PAIRS      pairs per paradigm of BLiMP (20); SENTENCES for the spread over orders (200)
#   TOGETHER   sentences with 4 to 8 blanks that are filled together (60)
#   CORPORA    what is learnt from, separated by spaces (SNLI train, Tatoeba, WikiText-2)
#   OUTPUT     folder of models and runs (runs/rows/tune-NAME)
#   RESULTS    folder of the page and its rows (docs/results)
#
# One process with one thread. To use more, run several of these with other ARMS, then --report.
# Stopped at any time and started again, it does what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

assets=${UNMASK_TEST_ASSETS:?set it to the folder with data/snli, data/english, data/xsum, data/blimp}
model=${MODEL:-models/tiny-english}
python=${PYTHON:-python}
output=${OUTPUT:-runs/rows/tune-$(basename "$model")}
results=${RESULTS:-docs/results}
data=$assets/data
export OMP_NUM_THREADS=1

declare -A options=(
    [start]=
    [control]="--masks plain"
    [blanks]="--masks blanks"
    [compatible-1]="--masks blanks --compatibility 1"
    [compatible-3]="--masks blanks --compatibility 3"
    [compatible-10]="--masks blanks --compatibility 10"
    [compatible-30]="--masks blanks --compatibility 30"
    [marginal]="--masks blanks --marginals 1"
    [both]="--masks blanks --compatibility 1 --marginals 1"
)
default="start control blanks compatible-1 compatible-3 compatible-10 compatible-30 marginal both"
read -ra arms <<< "${ARMS:-$default}"
read -ra corpora <<< "${CORPORA:-$data/snli/train-sentences.txt $data/english/tatoeba.txt \
$data/english/wikitext2-sentences.txt}"

sketched="--precision 0.2 --max-passes 500 --method mlm,orders,log-pool"

unmask() {
    "$python" -c 'import sys, unmask.cli; sys.exit(unmask.cli.main())' "$@"
}

# tuned ARM: the model's folder; nothing is learnt from sentences that are measured later
tuned() {
    local given
    read -ra given <<< "${options[$1]}"
    unmask tune "$model" "${corpora[@]}" -o "$output/$1/model" \
        --without "$output/measured.txt" \
        --passes "${PASSES:-600000}" --learning-rate "${RATE:-3e-4}" --tokens "${TOKENS:-8}" \
        --every "${EVERY:-2}" --patience 0 --keep last "${given[@]}"
}

# measured ARM FOLDER: pairs of blanks, minimal pairs, sentences; some failed examples are counted
measured() {
    local arm=$1 folder=$2 run corpus name count how given order code
    while IFS='|' read -r run corpus name count how; do
        if [[ ${MEASURE:-all} == dev && $run != snli-dev ]]; then return; fi
        code=0
        read -ra given <<< "$how"
        unmask evaluate "$corpus" -m "$folder" -o "$output/$arm/$run" --corpus-name "$name" \
            --model-name "$arm" --examples "$count" "${given[@]}" < /dev/null || code=$?
        ((code <= 1)) || exit "$code"
    done << END
snli-dev|$data/snli/dev.tsv|SNLI dev|${DEV:-250}|$sketched
snli|$data/snli/test.jsonl|SNLI test|${EXAMPLES:-250}|$sketched
xsum|$data/xsum/test-1000.txt|XSum test-1000|${XSUM:-250}|$sketched
exact|$data/snli/test.jsonl|SNLI test|${EXACT:-10}|--exact --method mlm,orders,log-pool,ag
END
    if [[ ! -e $output/$arm/blimp.jsonl ]]; then
        unmask score -m "$folder" --blimp "$data/blimp" --limit "${PAIRS:-20}" --method pll \
            --no-text --quiet --output "$output/$arm/blimp.jsonl" > /dev/null
    fi
    "$python" runs/together.py --model "$folder" --corpus "$data/snli/test.jsonl" \
        --limit "${TOGETHER:-60}" --output "$output/$arm/together.jsonl" \
        --ways "one at a time" "all at once" "together, 0.2 bits"
    if [[ ! -e $output/$arm/pairs.jsonl ]]; then
        "$python" runs/tune_report.py pairs --model "$folder" --sentences "$output/sentences.jsonl" \
            --output "$output/$arm/pairs.jsonl"
    fi
    for order in left-to-right surest margin; do
        if [[ ! -e $output/$arm/order-$order.jsonl ]]; then
            unmask score "$output/sentences.jsonl" -m "$folder" --method unmasking \
                --order "$order" --no-text --quiet --output "$output/$arm/order-$order.jsonl" > /dev/null
        fi
    done
}

if [[ ${1:-} != --report ]]; then
    mkdir -p "$output"
    # sentences that are measured, and those of them that whole-sentence scores are of
    "$python" runs/tune_report.py sentences --assets "$assets" --output "$output" \
        --count "${SENTENCES:-200}"
    for arm in "${arms[@]}"; do
        if [[ -z ${options[$arm]+there} ]]; then
            echo "there is no arm $arm; ARMS are among: $default" >&2
            exit 2
        fi
        echo "arm $arm" >&2
        mkdir -p "$output/$arm"
        if [[ $arm == start ]]; then
            measured "$arm" "$model"
        else
            tuned "$arm"
            measured "$arm" "$output/$arm/model"
        fi
    done
fi

# what is published has ids and numbers, and no text
published=$results/tuning
temporary=$(mktemp -d)
new=$temporary/tuning
mkdir "$new"
for arm in $default; do
    [[ -e $output/$arm/snli-dev ]] || continue
    mkdir "$new/$arm"
    for run in snli-dev snli xsum exact; do
        # not begun, or nothing saved yet
        compgen -G "$output/$arm/$run/rows/*/*.parquet" > /dev/null || continue
        unmask report "$output/$arm/$run" --copy-to "$new/$arm/$run" > /dev/null
    done
    "$python" runs/tune_report.py copy "$output/$arm" "$new/$arm"
    if [[ $arm != start ]]; then cp "$output/$arm/model/tuning.json" "$new/$arm"; fi
done
# only now, when everything is there
mkdir -p "$results"
rm -rf "$published"
mv "$new" "$published"
"$python" runs/tune_report.py page "$published" --output "$results/tuning.md"
chmod 755 "$published"
rmdir "$temporary"

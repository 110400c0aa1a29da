#!/usr/bin/env bash
# The paper's whole Table 1: two models, two corpora, two kinds of masks, 1,000 examples of each.
#
#   runs/table1.sh          say what it costs, measure, print the table
#   runs/table1.sh --cost   say what it costs and stop
#
# Models and corpora come from the Hugging Face Hub by name (pip install '.[datasets]'). An example
# takes 58,000 forward passes, and there are 8,000: work for a GPU, so look at --cost first. Started
# again, it does only what is missing. Exit code 1: some examples failed, the table is of the rest.
# Options are variables of the environment:
#
#   EXAMPLES     examples a mask, model and corpus (1000)
#   METHODS      constructions (mlm,mrf-logit,mrf,hcb,ag: the paper's five)
#   DTYPE        precision of the model (float32)
#   MEMORY_LIMIT memory for tables (20GB; BERT's take 14 GB, and are made again and again where they
#                do not fit)
#   RAY          share the work through Ray: auto, local, or an address
#   OUTPUT       folder for the rows (runs/rows/table1)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

examples=${EXAMPLES:-1000}
methods=${METHODS:-mlm,mrf-logit,mrf,hcb,ag}
output=${OUTPUT:-runs/rows/table1}
running=(--dtype "${DTYPE:-float32}" --memory-limit "${MEMORY_LIMIT:-20GB}")
unmask=("${PYTHON:-python}" -m unmask)
models=(bert-base-cased bert-large-cased)
corpora=(snli xsum)

if [[ $# -gt 1 || ${1:---cost} != --cost ]]; then
    echo "usage: runs/table1.sh [--cost]" >&2
    exit 2
fi
if [[ ! $examples =~ ^[1-9][0-9]*$ ]]; then
    echo "table1: EXAMPLES takes a number from 1, not '$examples'" >&2
    exit 2
fi

cost() {
    for model in "${models[@]}"; do
        for corpus in "${corpora[@]}"; do
            echo "$model, $corpus, both masks:"
            evaluate "$model" "$corpus" --dry-run
            echo
        done
    done
}

evaluate() {
    local ray=()
    if [[ -n ${RAY:-} ]]; then
        ray=(--ray "$RAY")
    fi
    "${unmask[@]}" evaluate "$2" -m "$1" --exact --mask random --mask contiguous --examples "$examples" \
        --method "$methods" "${running[@]}" --output "$output/$1-$2" "${@:3}" ${ray[@]+"${ray[@]}"}
}

if [[ ${1:-} == --cost ]]; then
    cost
    exit 0
fi
# on stderr: here it is no part of the result
cost >&2
mkdir -p "$output"
failed=0
for model in "${models[@]}"; do
    for corpus in "${corpora[@]}"; do
        code=0
        evaluate "$model" "$corpus" || code=$?
        # 1: some examples failed, and the others count; anything else stops here
        if [[ $code -gt 1 ]]; then
            exit "$code"
        fi
        failed=$((failed | code))
    done
done
"${unmask[@]}" report "$output"/*
exit "$failed"

#!/usr/bin/env bash
# Pairs of adjacent tokens in Chinese and Korean sentences (runs/other_corpora.py has the corpora):
# every construction, exact, and for the larger model those that can be sketched.
#
#   CHINESE=FILE CHINESE_MODEL=DIR KOREAN=FILE KOREAN_MODEL=DIR runs/other_languages.sh
#   runs/other_languages.sh --report    publish what is done so far
#
#   EXAMPLES   pairs per corpus (50)
#   OUTPUT     folder of the runs (runs/rows/other-languages)
#   RESULTS    folder of the pages (docs/results)
#
# Either may be left out. A Chinese pair (21,128 tokens) takes four minutes of a core, a sketched
# Korean one a minute. Stopped at any time and started again, it does what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python}
output=${OUTPUT:-runs/rows/other-languages}
results=${RESULTS:-docs/results}
export OMP_NUM_THREADS=1

unmask() {
    "$python" -c 'import sys, unmask.cli; sys.exit(unmask.cli.main())' "$@"
}

# measure RUN CORPUS MODEL OPTION...: what it will take is kept before it begins
measure() {
    local run=$1 corpus=$2 model=$3 folder said
    shift 3
    folder=$output/$(basename "$model")
    mkdir -p "$folder"
    set -- "$corpus" -m "$model" -o "$folder/$run" --mask contiguous --examples "${EXAMPLES:-50}" "$@"
    if [[ ! -f $folder/$run.predicted.txt ]]; then
        said=$(unmask evaluate "$@" --dry-run)
        printf '%s\n' "$said" | tee "$folder/$run.predicted.txt"
    fi
    # 1: some examples failed, which the pages count
    unmask evaluate "$@" || (($? == 1))
}

if [[ ${1:-} != --report ]]; then
    if [[ -n ${CHINESE:-} ]]; then
        measure debian-reference "$CHINESE" "$CHINESE_MODEL" --corpus-name "Debian Reference" \
            --exact --memory-limit 8GB
    fi
    if [[ -n ${KOREAN:-} ]]; then
        measure constitution "$KOREAN" "$KOREAN_MODEL" --corpus-name "Korean constitution" \
            --precision 0.2 --max-passes 500
    fi
fi

# what is published has ids and no text
published=$results/other-languages
shopt -s nullglob
for plan in "$output"/*/*/_plan.json; do
    run=$(dirname "$plan")
    model=$(basename "$(dirname "$run")")
    mkdir -p "$published/$model"
    rm -rf "${published:?}/$model/$(basename "$run")"
    unmask report "$run" --copy-to "$published/$model/$(basename "$run")" > /dev/null
    cp "$run.predicted.txt" "$published/$model"
done
"$python" runs/side_by_side.py "$results"/table1-*/ "$published"/*/ \
    --output "$results/table1.md"

#!/usr/bin/env bash
# The paper's example of the casino: its conditionals and every joint's mass, on a page.
#
#   runs/appendix_d.sh [--model NAME_OR_DIR] [--output FILE.md] [...]
#
# Without --model it takes the paper's bert-base-cased from the Hugging Face Hub: 58,000 forward
# passes a text, so an accelerator is welcome (--device cuda). Without --output the page is
# docs/results/appendix-d.md; the same figures are written beside it as JSON.
# The page in this repository is of the small model that the other results use:
#
#   runs/appendix_d.sh --model "$UNMASK_TEST_ASSETS/models/caption-bert" --threads 1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

exec "${PYTHON:-python}" runs/appendix_d.py "$@"

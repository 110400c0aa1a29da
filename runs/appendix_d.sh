#!/usr/bin/env bash
# The paper's example of the casino: its conditionals and every joint's mass, on a page.
#
#   runs/appendix_d.sh [--model NAME_OR_DIR] [--output FILE.md] [...]
#
# Without --model it takes the paper's bert-base-cased from the Hugging Face Hub: 58,000 forward
# passes a text, so an accelerator is welcome (--device cuda). Without --output the page is
# appendix-d.md; the same figures are written beside it as JSON.
# docs/results/appendix-d.json and its CSV file are of the small model of every clone:
#
#   runs/appendix_d.sh --model models/tiny-english --threads 1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

exec "${PYTHON:-python}" runs/appendix_d.py "$@"

# A joint from R by reticulate, without files.
#
#   RETICULATE_PYTHON=PYTHON Rscript runs/joint_in_r.R [MODEL]

library(reticulate)

arguments <- commandArgs(trailingOnly = TRUE)
model <- if (length(arguments) >= 1) arguments[1] else "models/tiny-english"

unmask <- import("unmask")
lm <- unmask$load(model)
joint <- lm$joint("The [MASK] [MASK] at the casino.")
fills <- do.call(rbind, lapply(joint$top(3L), function(fill) {
  data.frame(word1 = fill$tokens[[1]], word2 = fill$tokens[[2]], log_p = fill$log_prob)
}))
print(fills, digits = 4)
cat("people are:", format(joint$log_prob("people", "are"), digits = 4), "\n")

# Forty items from a data frame to a mixed model: `unmask pairs` called from R through a CSV.
#
#   Rscript runs/items_in_r.R [MODEL] [UNMASK]
#
# Ten sets of two pairs of words. Each pair as it is found is plausible; with the second words
# exchanged within a set it is not, so both conditions have the same words.

arguments <- commandArgs(trailingOnly = TRUE)
model <- if (length(arguments) >= 1) arguments[1] else "models/tiny-english"
command <- if (length(arguments) >= 2) arguments[2] else "unmask"

pairs <- matrix(c(
  "prime", "minister",     "high", "school",
  "police", "officer",     "train", "station",
  "football", "club",      "health", "service",
  "phone", "call",         "court", "case",
  "bank", "account",       "front", "door",
  "coffee", "shop",        "music", "festival",
  "climate", "change",     "family", "home",
  "chief", "executive",    "local", "council",
  "car", "park",           "baby", "girl",
  "press", "conference",   "summer", "holiday"
), ncol = 4, byrow = TRUE)

items <- do.call(rbind, lapply(seq_len(nrow(pairs)), function(set) {
  words <- pairs[set, ]
  data.frame(
    set = set,
    condition = rep(c("found", "exchanged"), each = 2),
    text = "They talked about the [MASK] [MASK] again.",
    word1 = words[c(1, 3, 1, 3)],
    word2 = words[c(2, 4, 4, 2)]
  )
}))

folder <- tempfile()
dir.create(folder)
written <- file.path(folder, "items.csv")
scored <- file.path(folder, "scores.csv")
write.csv(items, written, row.names = FALSE)

# R sets LD_LIBRARY_PATH for itself, and a Python that is not the system's may find the wrong libraries
status <- system2(
  command, c("pairs", written, "-m", model, "-o", scored, "--quiet"),
  env = "LD_LIBRARY_PATH="
)
if (status != 0) stop("unmask pairs ended with ", status)

# empty cells are missing values, in columns of words too; R itself writes them as NA
scores <- read.csv(scored, na.strings = c("", "NA"))
print(table(reason = scores$reason, useNA = "always"))
scores <- subset(scores, is.na(reason))
scores$condition <- factor(scores$condition, levels = c("exchanged", "found"))

cat("\nmeans by condition\n")
print(aggregate(cbind(log_p, association) ~ condition, scores, mean), digits = 4)

library(lme4, quietly = TRUE)
fit <- lmer(association ~ condition + (1 | set) + (1 | word1), data = scores)
cat("\nassociation ~ condition + (1 | set) + (1 | word1)\n")
print(coef(summary(fit)), digits = 4)
print(VarCorr(fit), digits = 3)

"""Many blanks in few passes: which are filled in the same step, by rules of one signature."""

"""The few lines that run in the visitor's browser."""

from unmask.demo.question import LONGEST_TEXT

# a click on a word, sent to the server
CLICKED = """
element.addEventListener('click', (event) => {
  const word = event.target.closest('button[data-place]');
  if (!word) return;
  trigger('click', {place: Number(word.dataset.place), word: word.dataset.word});
});
"""

ASKED_BY_LINK = "() => window.location.search"

# answers may come in another order than requested; if the words that are shown are those
# of a text before this, a count goes up, which asks again
IF_BEHIND = f"""
(text, before, times) =>
  text !== before && text.length <= {LONGEST_TEXT} ? String(Number(times) + 1) : times
"""

# the address shows the question, so that it can be copied, bookmarked and reloaded
INTO_ADDRESS = """
(query) => {
  if (!query) return "";
  const address = new URL(window.location.href);
  for (const [key, value] of new URLSearchParams(query)) address.searchParams.set(key, value);
  window.history.replaceState(null, "", address);
  return address.href;
}
"""

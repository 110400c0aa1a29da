"use strict";
// Sorts and filters the tables of examples. What it shows goes in as text, never as markup.

// as printable() does in Python: controls, overrides of direction, separators but the space
function printable(text) {
  return text.replace(/[\p{C}\p{Z}]/gu, (ch) => {
    const code = ch.codePointAt(0);
    const short = { 9: "\\t", 10: "\\n", 13: "\\r", 32: " " }[code];
    if (short) return short;
    const hex = code.toString(16);
    if (code <= 0xff) return "\\x" + hex.padStart(2, "0");
    return code <= 0xffff ? "\\u" + hex.padStart(4, "0") : "\\U" + hex.padStart(8, "0");
  });
}

// the places of the rows that are wanted, in the order that is wanted; no number comes last
function chosen(data, ids, wanted) {
  const distances = data.numbers[0];
  const kept = [...ids.keys()].filter(
    (row) =>
      ids[row].toLowerCase().includes(wanted.text) &&
      !(distances[row] < wanted.from) &&
      !(distances[row] > wanted.to),
  );
  const sign = wanted.descending ? -1 : 1;
  if (wanted.column === 0) return wanted.descending ? kept.reverse() : kept;
  const values = data.numbers[wanted.column - 1];
  return kept.sort((one, other) => {
    const [left, right] = [values[one], values[other]];
    if (left === null || right === null) return (left === null) - (right === null);
    return sign * (left - right);
  });
}

function limit(field, otherwise) {
  return field.value.trim() === "" ? otherwise : Number(field.value);
}

// as example_head() does in the template
function sentenceOf(pieces) {
  const sentence = document.createElement("bdi");
  sentence.setAttribute("class", "sentence");
  for (const [text, blank] of pieces) {
    const piece = document.createElement(blank ? "mark" : "span");
    piece.textContent = printable(text);
    sentence.append(piece);
  }
  return sentence;
}

function rowOf(data, id, place) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  const name = document.createElement("bdi");
  head.setAttribute("scope", "row");
  name.textContent = id;
  head.append(name);
  if (data.sentences) head.append(sentenceOf(data.sentences[place]));
  row.append(head);
  data.numbers.forEach((values, column) => {
    const cell = document.createElement("td");
    const value = values[place];
    cell.textContent = value === null ? "" : value.toFixed(data.digits[column]);
    row.append(cell);
  });
  return row;
}

function setUp(part) {
  const data = JSON.parse(part.querySelector("script").textContent);
  const ids = data.ids.map(printable);
  const find = (selector) => part.querySelector(selector);
  const [filter, from, to, all] = [".filter", ".from", ".to", ".all"].map(find);
  const buttons = [...part.querySelectorAll("th button")];
  const wanted = { column: 0, descending: false, everything: ids.length <= data.first };

  function show() {
    wanted.text = filter.value.toLowerCase();
    wanted.from = limit(from, -Infinity);
    wanted.to = limit(to, Infinity);
    const rows = chosen(data, ids, wanted);
    const shown = wanted.everything ? rows : rows.slice(0, data.first);
    find("tbody").replaceChildren(...shown.map((place) => rowOf(data, ids[place], place)));
    all.hidden = wanted.everything || rows.length <= data.first;
    all.textContent = `Show all ${rows.length.toLocaleString("en")}`;
    const [few, found, every] = [shown, rows, ids].map((one) => one.length.toLocaleString("en"));
    const kept = found === every ? "" : `; ${found} match`;
    find(".shown").textContent = `${few} of ${every} examples are shown${kept}.`;
  }

  function sortBy(button) {
    const column = Number(button.dataset.column);
    wanted.descending = column === wanted.column && !wanted.descending;
    wanted.column = column;
    const order = wanted.descending ? "descending" : "ascending";
    for (const one of buttons) {
      one.closest("th").setAttribute("aria-sort", one === button ? order : "none");
    }
    show();
  }

  for (const button of buttons) button.addEventListener("click", () => sortBy(button));
  for (const field of [filter, from, to]) field.addEventListener("input", show);
  all.addEventListener("click", () => {
    wanted.everything = true;
    show();
  });
  all.hidden = wanted.everything;
  find(".controls").hidden = false;
}

for (const part of document.querySelectorAll(".examples")) setUp(part);

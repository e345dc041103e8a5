// What pages about jobs add to the script of the console: choose all rows of a page, and search while one types.

const find = (selector) => document.querySelector(selector);
const findAll = (selector) => [...document.querySelectorAll(selector)];
const TYPED_FOR = 300; // ms after the last key, until the list is searched

// ---- Rows: the box in the head chooses all of the page

function showChoosePage() {
  const [head, boxes] = [find("[data-choose-page]"), findAll("tbody input[name=job]")];
  if (!head) return;
  const count = boxes.filter((box) => box.checked).length;
  head.hidden = false;
  head.checked = count > 0 && count === boxes.length;
  head.indeterminate = count > 0 && count < boxes.length;
}

function onChange({ target }) {
  if (target.matches("[data-choose-page]"))
    for (const box of findAll("tbody input[name=job]")) box.checked = target.checked;
  countChosen();
}

function countChosen() {
  const count = findAll("#main tbody input[name=job]:checked").length;
  for (const place of findAll("[data-chosen]")) place.textContent = String(count);
  showChoosePage();
}

// ---- Search: the list changes while one types, and Enter loads it as a page

let searchTimer = 0;

function searchSoon(form) {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(() => {
    const members = new URLSearchParams(new FormData(form));
    const kept = find("#filter input[name=search]");
    if (kept) kept.value = members.get("search");
    history.replaceState(null, "", `${form.action}?${members}`);
    document.dispatchEvent(new Event("refresh"));
  }, TYPED_FOR);
}

// ---- Start

countChosen();
document.addEventListener("change", onChange);
document.addEventListener("refreshed", countChosen);
find("#search")?.addEventListener("input", (event) => searchSoon(event.currentTarget));

// What jobs add to the script of the console: choose all rows of a page, search while one types, find a child in the
// grid, and follow a job or a group until its end, which the browser then notifies.

import { fetchFragment, find, findAll, refresh } from "./console.js";

const FOLLOWED = "batchq followed"; // in the storage of the browser: names of jobs and groups by the paths of their pages
const GROUP_INTERVAL = 5_000; // ms between two looks at followed groups, which notices do not name
const SLOW_INTERVAL = 30_000; // ms between two looks without notices
const TYPED_FOR = 300; // ms after the last key, until the list is searched

// ---- Rows: the box in the head chooses all of the page

function showChoosePage() {
  const [head, boxes] = [find("[data-choose-page]"), findAll("tbody input[name=job]")];
  if (!head) return;
  const count = boxes.filter((box) => box.checked).length;
  head.closest("label").hidden = false;
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
    refresh();
  }, TYPED_FOR);
}

// ---- The grid of children: the pointer or an arrow shows a child, a click or Enter opens it

function startGrid(grid) {
  const columns = Number(grid.dataset.columns);
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const marker = document.createElementNS(grid.namespaceURI, "path");
  marker.setAttribute("class", "marker");
  let child = -1;
  function show(index) {
    if (index < 0 || index >= grid.dataset.size) return;
    child = index;
    marker.setAttribute("d", `M${index % columns} ${Math.floor(index / columns)}h1v1h-1z`);
    grid.append(marker);
    if (grid === document.activeElement) marker.scrollIntoView({ block: "nearest" });
    find("#grid-child").textContent = `Child ${index}`;
  }
  const open = () => child < 0 || location.assign(`/ui/jobs/${grid.dataset.job}:${child}`);
  grid.addEventListener("pointermove", (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(grid.getScreenCTM().inverse());
    if (at.x >= 0 && at.x < columns) show(Math.floor(at.y) * columns + Math.floor(at.x));
  });
  grid.addEventListener("click", open);
  grid.addEventListener("keydown", (event) => {
    if (event.key === "Enter") open();
    else if (event.key in steps) show(child < 0 ? 0 : child + steps[event.key]);
    else return;
    event.preventDefault();
  });
}

// ---- Following. One tab of the browser watches all that is followed, while it is hidden too

const followButton = find("#follow");
const followed = () => JSON.parse(localStorage.getItem(FOLLOWED)) ?? {};
let [watches, groupsAt] = [false, 0];

function setFollowed(path, name) {
  const paths = followed();
  if (name) paths[path] = name;
  else delete paths[path];
  localStorage.setItem(FOLLOWED, JSON.stringify(paths));
  showFollowed();
}

function showFollowed() {
  const paths = followed();
  document.body.toggleAttribute("data-following", watches && Object.keys(paths).length > 0);
  if (!followButton) return;
  const follows = location.pathname in paths;
  followButton.hidden = Notification.permission === "denied" || (!follows && find("#live [data-ended]") !== null);
  followButton.setAttribute("aria-pressed", follows);
  followButton.textContent = follows ? "Following" : "Follow";
}

async function toggleFollowed() {
  const name = location.pathname in followed() ? null : find("h1").textContent.trim();
  if (name && (await Notification.requestPermission()) !== "granted") {
    find("#announce").textContent = "The browser does not permit notifications";
    return showFollowed();
  }
  setFollowed(location.pathname, name);
  if (name && !watches) watch({ steal: true });
}

/** Watch once no other tab does or, with `steal`, at once, until the tab is closed or another one takes over. */
async function watch(options) {
  try {
    await navigator.locks.request(FOLLOWED, options, () => {
      watches = true;
      showFollowed();
      look();
      return new Promise(() => {});
    });
  } catch {
    watches = false;
    showFollowed();
    watch({});
  }
}

function lookAfter({ detail: { queues, jobs, more } }) {
  const groupsAreDue = Date.now() > groupsAt + GROUP_INTERVAL;
  if (groupsAreDue) groupsAt = Date.now();
  const changed = new Set(jobs.flatMap((id) => [id, id.split(/[:#]/)[0]]));
  look((path) => (path.startsWith("/ui/jobs/") ? !queues || more || changed.has(path.split("/")[3]) : groupsAreDue));
}

/** Fetch the pages of what is followed, and notify of what has ended. `chosen`: which paths. */
async function look(chosen = () => true) {
  for (const path of watches ? Object.keys(followed()).filter(chosen) : []) {
    try {
      const { body } = await fetchFragment(path, "live");
      const ended = find("[data-ended]", body);
      if (ended) notify(path, ended.dataset.ended, find("#why", body)?.textContent.trim());
    } catch (error) {
      if (error.message === "404") setFollowed(path, null); // the job was removed, or this is another user
    }
  }
}

function notify(path, outcome, body = "") {
  const name = followed()[path];
  setFollowed(path, null);
  if (!name) return; // another look was faster
  const shown = new Notification(`${name}: ${outcome}`, { body, tag: path });
  shown.onclick = () => {
    focus();
    location.assign(path);
  };
}

// ---- A screen reader hears once that the job or group of the page has ended; other changes are silent

let wasEnded = find("#live [data-ended]") !== null;
function announceEnd() {
  const ended = find("#live [data-ended]");
  if (ended && !wasEnded) find("#announce").textContent = `Ended: ${ended.dataset.ended}`;
  wasEnded = ended !== null;
}

function startFollowing() {
  showFollowed();
  followButton?.addEventListener("click", toggleFollowed);
  document.addEventListener("refreshed", showFollowed);
  document.addEventListener("notice", lookAfter);
  addEventListener("storage", showFollowed);
  setInterval(look, SLOW_INTERVAL, undefined);
  watch({});
}

// ---- Start

countChosen();
document.addEventListener("change", onChange);
document.addEventListener("refreshed", countChosen);
document.addEventListener("refreshed", announceEnd);
findAll("svg[data-columns]").forEach(startGrid);
find("#search")?.addEventListener("input", (event) => searchSoon(event.currentTarget));
if (isSecureContext && "Notification" in globalThis) startFollowing();

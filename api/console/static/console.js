// The script of the web console. After a notice of a change the page fetches its own live part again. Events of the
// document: `notice` has a notice, and `refreshed` follows a change of the live part.

const HIDDEN_FOR = 10_000; // ms until a hidden page closes its stream: browsers allow few connections
const POLL_INTERVAL = 5_000; // ms, of a page whose stream is refused
const SLOW_INTERVAL = 30_000; // ms: notices are about jobs only, not about queues or the container engine
const SILENT_FOR = 8_000; // ms without an answer, until the banner is shown
const LOG_WAIT = 20; // s that the server may wait for new lines
const MAX_LOG_LINES = 2000;

export const find = (selector, within = document) => within.querySelector(selector);
export const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];
const hasCookie = (text) => document.cookie.split("; ").includes(text);

// ---- Fragments: blocks of pages, as the server renders them

const policy = globalThis.trustedTypes?.createPolicy("fragment", { createHTML: (html) => html });

/** Fetch a block of a page. `body` is null if it is the one with this `etag`. */
export async function fetchFragment(url, name, etag) {
  const response = await fetch(url, { headers: { "X-Fragment": name, "If-None-Match": etag ?? "" } });
  setServerTime(response.headers.get("Date"));
  if (response.headers.has("X-Tab") && url === location.href)
    document.title = `${decodeURIComponent(response.headers.get("X-Tab"))} · batchq`;
  if (response.status === 401) location.reload(); // the session has ended
  if (response.status === 304) return { body: null, etag };
  if (!response.ok) throw new Error(response.status);
  const html = await response.text();
  const parsed = new DOMParser().parseFromString(policy?.createHTML(html) ?? html, "text/html");
  return { body: parsed.body, etag: response.headers.get("ETag") };
}

// ---- Merging: equal nodes stay untouched, and focus, selection, scroll and open details stay

/** Change `shown` to `fresh`. `before` is what the server sent for `shown`: this script has changed it since. */
function merge(shown, before, fresh) {
  if (before.isEqualNode(fresh) || "keep" in (shown.dataset ?? {})) return;
  if (shown.data !== undefined) shown.data = fresh.data; // text
  else {
    for (const { name } of before.attributes) if (!fresh.hasAttribute(name)) shown.removeAttribute(name);
    for (const { name, value } of fresh.attributes)
      if (value !== before.getAttribute(name)) shown.setAttribute(name, value);
    mergeChildren(shown, before, fresh);
    if (shown.matches(".status, .count, .figures dd") && before.textContent !== fresh.textContent) flash(shown, "changed");
  }
}

function mergeChildren(shown, before, fresh) {
  const [shownNodes, beforeNodes] = [[...shown.childNodes], [...before.childNodes]];
  const matches = matchNodes(beforeNodes, fresh.childNodes);
  const kept = new Set(matches.values());
  shownNodes.forEach((node, index) => (node.id !== undefined && kept.has(index)) || node.remove());
  let next = shown.firstChild;
  for (const node of fresh.childNodes) {
    const index = matches.get(node);
    const placed = index === undefined ? newNode(node) : shownNodes[index];
    if (index !== undefined) merge(placed, beforeNodes[index], node);
    if (placed === next) next = next.nextSibling;
    else shown.insertBefore(placed, next);
  }
}

/** The index of the old node that each new one continues: of the same id, or the next of the same kind. */
function matchNodes(oldNodes, newNodes) {
  const kind = (node) => `${node.nodeName} ${node.id}`;
  const indexes = new Map();
  oldNodes.forEach((node, index) => indexes.set(kind(node), [...(indexes.get(kind(node)) ?? []), index]));
  const matches = [...newNodes].map((node) => [node, indexes.get(kind(node))?.shift()]);
  return new Map(matches.filter(([, index]) => index !== undefined));
}

function newNode(node) {
  const added = document.importNode(node, true);
  if (added.id && !matchMedia("(prefers-reduced-motion: reduce)").matches) flash(added, "appeared");
  return added;
}

function flash(element, name) {
  element.classList.add(name);
  setTimeout(() => element.classList.remove(name), 1000);
}

// ---- The live part of the page

const area = find("#live");
const liveButton = find("#live-status");
const banner = find("#not-live");
let before = area?.cloneNode(true); // as the server sent it
let [etag, stream] = [null, null];
let number = document.body.dataset.number; // of the newest change that the page shows
let minInterval = 0; // s between two fetches at least, while the server is busy
let fetchedAt = Date.now();
let [paused, fetching, changedMeanwhile] = [false, false, false];
let [refreshTimer, pollTimer, bannerTimer, closeTimer] = [0, 0, 0, 0];

/** Whether a notice concerns this page: one that names no queues concerns all. */
function isConcerned({ queues, jobs, more }) {
  const listed = (name) => (area.dataset[name] ?? "").split(" ").filter(Boolean);
  const [ownQueues, ownJobs] = [listed("queues"), listed("jobs")];
  if (!queues || !(ownQueues.length || ownJobs.length)) return true;
  const changed = jobs.flatMap((id) => [id, id.split(/[:#]/)[0]]); // a child concerns the page of its array
  return ownQueues.some((queue) => queues.includes(queue)) || ownJobs.some((id) => more || changed.includes(id));
}

function refreshSoon() {
  changedMeanwhile = fetching;
  if (refreshTimer || fetching || paused || document.hidden) return;
  const interval = 1000 * Math.max(Number(area.dataset.minInterval) || 1, minInterval);
  refreshTimer = setTimeout(refresh, Math.max(0, fetchedAt + interval - Date.now()));
}

export async function refresh() {
  clearTimeout(refreshTimer);
  refreshTimer = 0;
  if (fetching || paused) return;
  fetching = true;
  fetchedAt = Date.now();
  try {
    const answer = await fetchFragment(location.href, "live", etag);
    if (answer.body && !paused) {
      mergeChildren(area, before, answer.body);
      [before, etag] = [answer.body, answer.etag];
      showTimes();
      document.dispatchEvent(new Event("refreshed"));
    }
    showConnected(true);
  } catch {
    showConnected(false);
  }
  fetching = false;
  if (changedMeanwhile) refreshSoon();
}

function connect() {
  disconnect();
  stream = new EventSource(`/ui/live?after=${number}`);
  stream.onopen = () => showConnected(true);
  stream.onmessage = (event) => {
    const notice = JSON.parse(event.data);
    [number, minInterval] = [notice.n, notice.fetchInterval ?? 0];
    document.dispatchEvent(new CustomEvent("notice", { detail: notice }));
    if (isConcerned(notice)) refreshSoon();
  };
  stream.onerror = () => {
    showConnected(false);
    if (stream?.readyState !== EventSource.CLOSED) return; // the browser connects again
    disconnect(); // the stream is refused: too many pages are open
    pollTimer = setTimeout(resume, POLL_INTERVAL);
  };
}

function disconnect() {
  stream?.close();
  stream = null;
  clearTimeout(pollTimer);
}

function showConnected(connected) {
  if (connected) {
    clearTimeout(bannerTimer);
    bannerTimer = 0;
    banner.hidden = true;
  } else if (!bannerTimer) {
    const since = absolute(serverNow()).slice(11);
    bannerTimer = setTimeout(() => {
      banner.textContent = `Not live since ${since}: the server does not answer.`;
      banner.hidden = false;
    }, SILENT_FOR);
  }
}

function togglePaused() {
  paused = !paused;
  liveButton.setAttribute("aria-pressed", paused);
  liveButton.textContent = paused ? "Paused" : "Live";
  (paused ? disconnect : resume)();
}

function resume() {
  if (paused || document.hidden || !area) return;
  if (!stream) connect();
  refresh();
}

function startLive() {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(closeTimer);
    if (document.hidden && !("following" in document.body.dataset)) closeTimer = setTimeout(disconnect, HIDDEN_FOR);
    else if (!document.hidden) resume();
  });
  setInterval(() => ("tab" in document.body.dataset && document.hidden ? refresh() : refreshSoon()), SLOW_INTERVAL);
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", (event) => event.persisted && resume());
  connect();
}

// ---- Times: local and relative, by the clock of the server

let clockOffset = 0; // ms by which the server's clock is ahead

const serverNow = () => Date.now() + clockOffset;
function setServerTime(text) {
  const at = Date.parse(text ?? "");
  if (at) clockOffset = at - Date.now();
}

/** As 2026-11-23 14:02:30, local or UTC. */
const absolute = new Intl.DateTimeFormat("sv-SE", {
  dateStyle: "short",
  timeStyle: "medium",
  timeZone: hasCookie("times=utc") ? "UTC" : undefined,
}).format;

/** As 40 s, 4 min, 2 h 5 min, 3 d 2 h. */
function duration(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const [size, unit, part, partUnit] = seconds < 86400 ? [3600, "h", 60, "min"] : [86400, "d", 3600, "h"];
  const rest = Math.floor((seconds % size) / part);
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${partUnit}` : ""}`;
}

/** As 4 min ago, in 4 min or, with data-relative="for", 4 min. */
function relative(at, form) {
  const seconds = Math.floor((serverNow() - at) / 1000);
  if (form === "for") return duration(Math.max(0, seconds));
  return seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`;
}

function showTimes(selector = "time[datetime]") {
  for (const time of findAll(selector)) {
    const at = new Date(time.dateTime);
    const text = "relative" in time.dataset ? relative(at, time.dataset.relative) : absolute(at);
    if (time.textContent !== text) time.textContent = text;
    time.title = time.dateTime;
  }
}

// ---- Clicks: copy buttons, and links with data-dialog, which open the block `dialog` of their page

let copying = null; // the text of the button that was clicked
/** Copy the text of a button, and the ISO form of a time. */
function onCopy(event) {
  const { anchorNode, focusNode } = getSelection();
  const time = anchorNode?.parentElement?.closest("time");
  const text = copying ?? (time?.contains(focusNode) && time.dateTime);
  if (!text) return;
  event.clipboardData.setData("text/plain", text);
  event.preventDefault();
}

function copyText(button) {
  const { copy, copyFrom } = button.dataset; // a text, or the selector of lines
  copying = copy ?? findAll(`${copyFrom} code`).map((line) => line.textContent).join("\n");
  document.execCommand("copy") || navigator.clipboard?.writeText(copying);
  copying = null;
  flash(button, "copied");
  find("#announce").textContent = "Copied";
}

async function openDialog(link) {
  try {
    const { body } = await fetchFragment(link.href, "dialog");
    const dialog = document.createElement("dialog");
    dialog.append(...body.childNodes);
    dialog.setAttribute("aria-labelledby", find("h1, h2", dialog)?.id ?? "");
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    showTimes();
    dialog.showModal();
  } catch {
    location.assign(link.href);
  }
}

/** Close the menus that the event is outside of; Escape closes all. */
function closeMenus({ key, target }) {
  for (const menu of findAll("details.menu[open]")) {
    menu.open = key !== "Escape" && menu.contains(target);
    if (key === "Escape") find("summary", menu).focus();
  }
}

function onClick(event) {
  closeMenus(event);
  const target = event.target.closest("[data-dialog], dialog [data-close], .copy");
  if (!target || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (target.matches(".copy")) copyText(target);
  else if (target.matches("[data-dialog]")) openDialog(target);
  else target.closest("dialog").close();
  event.preventDefault();
}

// ---- Keys and rows. A row is current while it has the focus

const currentRow = () => document.activeElement.closest("#main [id]:is(tr, .row)");

function moveRow(by) {
  const rows = findAll("#main [id]:is(tr, .row):has(a)");
  const at = rows.indexOf(currentRow());
  const row = rows[at < 0 ? 0 : at + by];
  if (row) find("a", row).focus();
}

/** Click or focus the element with this data-key, in the current row or else in the page. */
function activate(key) {
  const elements = findAll(`[data-key="${key}"]`);
  const element = elements.find((each) => currentRow()?.contains(each)) ?? elements[0];
  if (element?.matches("a, button")) element.click();
  else element?.focus();
  return element;
}

const actions = {
  j: () => moveRow(1),
  k: () => moveRow(-1),
  x: () => currentRow()?.querySelector("input[type=checkbox]")?.click(),
  c: () => find(".copy", currentRow() ?? find("#main"))?.click(),
  p: togglePaused,
};

let afterG = -Infinity; // when `g` was pressed, which begins `g j` and others

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || find("dialog[open]")) return;
  if (event.target.matches("textarea, select, input:not([type=checkbox], [type=radio])")) return;
  const key = event.timeStamp - afterG < 1500 ? `g ${event.key}` : event.key;
  afterG = key === "g" ? event.timeStamp : -Infinity;
  if (!/^(g )?[a-z/?]$/.test(key) || key === "g") return;
  if (actions[key]) actions[key]();
  else if (!activate(key)) return;
  event.preventDefault();
}

// ---- Logs: new lines are appended, and the end stays in view if it was

async function followLog(log) {
  log.scrollTop = log.scrollHeight;
  for (let over = false; !over; ) {
    const url = new URL(log.dataset.path ?? "", location);
    url.searchParams.set("after", log.dataset.next);
    url.searchParams.set("wait", LOG_WAIT);
    try {
      if (paused || document.hidden) throw new Error("paused");
      const lines = find("#lines", (await fetchFragment(url, "lines")).body);
      over = lines.dataset.over === "true";
      log.dataset.next = lines.dataset.next;
      appendLines(log, lines);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL / 5));
    }
  }
}

function appendLines(log, lines) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  log.append(...lines.children);
  showTimes();
  if (!atEnd) return;
  while (log.children.length > MAX_LOG_LINES) log.firstElementChild.remove();
  log.scrollTop = log.scrollHeight;
}

// ---- Start

setServerTime(document.body.dataset.now);
showTimes();
setInterval(() => document.hidden || showTimes("time[data-relative]"), 1000);
document.addEventListener("click", onClick);
document.addEventListener("focusin", closeMenus);
document.addEventListener("keydown", (event) => event.key === "Escape" && closeMenus(event));
document.addEventListener("copy", onCopy);
if (!hasCookie("shortcuts=off")) document.addEventListener("keydown", onKey);
if (area) startLive();
findAll("#log[data-follow]").forEach(followLog);
liveButton.hidden = !find("#live, #log[data-follow]");
liveButton.addEventListener("click", togglePaused);

"use strict";
// Shows what leafd says of itself. Every text from leafd goes into the page as text, never as markup.
// A fetch reads the stream of events instead of EventSource, which can neither show a token nor tell
// why leafd refuses.

const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

// Milliseconds without a byte after which the page believes that leafd is away. leafd sends one at
// least every 5 seconds.
const SILENCE = 15000;
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5000;

// ---- Text ----

const group = (digits) => String(digits).replace(/\B(?=(\d{3})+$)/g, "\u202f");

// The same, where a line may end between groups: the longest numbers are long.
const groupBreakable = (digits) => group(digits).replaceAll("\u202f", "\u2009");

function duration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 63072000) return `${Math.floor(seconds / 86400)} days`;
  return `${group(Math.floor(seconds / 31557600))} years`;
}

function time(unixMs) {
  const date = new Date(Number(unixMs));
  if (Number.isNaN(date.getTime())) return "beyond the year 275760";
  return date.toISOString().replace("T", " ").replace(/\.\d+Z$/, "");
}

const ago = (ms) => (ms === null ? "never" : `${duration(ms / 1000)} ago`);

// ---- Elements ----

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Shows pairs of a name, a text and perhaps a class. Nodes stay, so that a selection survives.
function facts(list, pairs) {
  const shown = pairs.filter((pair) => pair[1] !== null && pair[1] !== "");
  while (list.children.length > shown.length * 2) list.lastElementChild.remove();
  while (list.children.length < shown.length * 2) list.append(element("dt"), element("dd"));
  shown.forEach(([name, text, className], index) => {
    const value = list.children[index * 2 + 1];
    setText(list.children[index * 2], name);
    setText(value, String(text));
    value.className = className ?? "";
  });
}

// Shows one row for each item, and keeps the rows of items that were there before.
function rows(body, items, keyOf, make, fill) {
  const old = new Map(Array.from(body.children, (row) => [row.dataset.key, row]));
  items.forEach((item, index) => {
    const key = String(keyOf(item));
    const row = old.get(key) ?? make();
    old.delete(key);
    row.dataset.key = key;
    fill(row, item);
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
  });
  old.forEach((row) => row.remove());
}

function rowOf(cells) {
  const row = element("tr");
  row.setAttribute("role", "row");
  for (const [label, className] of cells) {
    const cell = element("td", className);
    cell.setAttribute("role", "cell");
    cell.dataset.label = label;
    row.append(cell);
  }
  return row;
}

// ---- Sections ----

function showDaemon(view) {
  const { daemon, segments } = view.status;
  setText(byId("who"), `version ${daemon.version}, process ${daemon.pid}`);
  facts(byId("daemon"), [
    ["Up for", duration(daemon.uptime_ms / 1000)],
    ["Store", segments.store],
    ["Store error", segments.store_error, "bad"],
    ["Tags", group(segments.tags)],
    ["Waiting", group(segments.waiting), segments.waiting > 0 ? "warn" : ""],
    ["IDs issued", group(segments.issued)],
    ["Leases", group(segments.leases)],
    ["Connections", group(daemon.connections)],
    ["Requests", group(daemon.requests)],
    ["State", daemon.state_dir],
  ]);
}

function showSnowflake(view) {
  const it = view.status.snowflake;
  if (!view.offers_snowflakes) {
    facts(byId("snowflake"), [["State", "turned off (snowflake.enabled)"]]);
    return;
  }
  const behind = it.behind_ms === undefined ? "" : ` by ${group(it.behind_ms)} ms`;
  const tone = { serving: "good", starting: "warn" }[it.state] ?? "bad";
  const offset = it.clock_offset_ms === null ? "unknown" : `${group(it.clock_offset_ms)} ms`;
  facts(byId("snowflake"), [
    ["State", it.state.replace("-", " ") + behind, tone],
    ["Reason", it.reason ?? "", "bad"],
    ["Worker", it.worker === null ? "none" : it.worker],
    ["Registry", it.registry],
    ["Registry error", it.registry_error, "bad"],
    ["Reported", it.last_report_ms_ago === null ? "" : ago(it.last_report_ms_ago)],
    ["Identity", it.identity],
    ["Layout", it.layout],
    ["IDs issued", group(it.issued)],
    ["Ceiling", it.ceiling_unix_ms > 0 ? time(it.ceiling_unix_ms) : "none yet"],
    ["Last ID", it.last_unix_ms > 0 ? time(it.last_unix_ms) : "none"],
    ["Clock", time(it.clock_unix_ms)],
    ["Clock offset", it.peers > 0 ? `${offset}, by ${it.peers} peers` : "no peers to compare with"],
    ["Claim ends", it.limit_unix_ms === null ? "" : time(it.limit_unix_ms)],
  ]);
}

// When a tag reaches the numbers that callers cannot hold, for those that are near.
const BOUNDS = [
  [2n ** 31n, "2³¹, the end of int32"],
  [2n ** 53n, "2⁵³, the end of JavaScript's numbers"],
  [2n ** 63n, "2⁶³, the end of int64"],
];
const FAR_SECONDS = 20 * 31557600;

function forecastOf(tag, unixMs) {
  if (!(tag.ids_per_second > 0)) return null;
  const bound = BOUNDS.find(([end]) => BigInt(tag.max_id) < end);
  if (!bound) return null;
  const seconds = Number(bound[0] - BigInt(tag.max_id)) / tag.ids_per_second;
  if (seconds > FAR_SECONDS) return null;
  // U+2068 and U+2069 isolate a name that is written from right to left.
  return { seconds, text: `\u2068${tag.tag}\u2069: ${bound[1]}, ${time(unixMs + seconds * 1000)}` };
}

function showForecasts(view) {
  const left = (view.layout_end_unix_ms - view.unix_ms) / 1000;
  const near = view.tags.map((tag) => forecastOf(tag, view.unix_ms)).filter(Boolean);
  near.sort((one, other) => one.seconds - other.seconds);
  const layout = `${time(view.layout_end_unix_ms)}, in ${duration(Math.max(left, 0))}`;
  facts(byId("forecasts"), [
    ["Layout ends", layout, left < 31557600 ? "bad" : ""],
    ...near.slice(0, 5).map((one) => [
      `In ${duration(one.seconds)}`, one.text, one.seconds < 31557600 ? "bad" : "",
    ]),
    ["Tags here", near.length === 0 ? "none reaches 2³¹, 2⁵³ or 2⁶³ within 20 years" : ""],
  ]);
}

// ---- Tags ----

const TAG_CELLS = [
  ["Tag", "name"], ["Ranges", "ranges"], ["Position", "number long"], ["IDs left", "number"],
  ["IDs/s", "number"], ["Seconds left", "number"], ["Step", "number"], ["Waiting", "number"],
  ["Last lease", "number"],
];

function tagRow() {
  const row = rowOf(TAG_CELLS);
  const [name, ranges] = row.children;
  name.append(element("div", "id"), element("div", "description"), element("div", "error"));
  ranges.append(bar("current"), bar("next"));
  return row;
}

function bar(kind) {
  const box = element("div");
  const track = element("div", `bar ${kind}`);
  track.setAttribute("role", "img");
  track.append(element("div"));
  box.append(element("div", "span"), track);
  box.firstElementChild.append(element("span"), element("span"));
  return box;
}

// Shows how much of a range is left, at the right end, since IDs are taken from the left.
function fillBar(box, kind, range, position) {
  const [start, end] = box.firstElementChild.children;
  const track = box.lastElementChild;
  if (range === null) {
    setText(start, `no ${kind} range`);
    setText(end, "");
    track.hidden = true;
    return;
  }
  const [from, to] = [BigInt(range.start), BigInt(range.end)];
  const at = position > from ? position : from;
  const percent = to > from ? Number(((to - at) * 1000n) / (to - from)) / 10 : 0;
  setText(start, groupBreakable(range.start));
  setText(end, groupBreakable(range.end));
  track.hidden = false;
  track.setAttribute("aria-label", `${kind} range: ${Math.round(percent)} % left`);
  track.firstElementChild.style.width = `${percent}%`;
}

function fillTag(row, tag) {
  const [name, ranges, position, left, rate, seconds, step, waiting, lease] = row.children;
  setText(name.children[0], tag.tag);
  setText(name.children[1], tag.description);
  setText(name.children[2], tag.lease_error);
  const at = BigInt(tag.position);
  fillBar(ranges.children[0], "current", tag.current, at);
  fillBar(ranges.children[1], "next", tag.next, 0n);
  setText(position, groupBreakable(tag.position));
  setText(left, group(tag.remaining));
  setText(rate, number.format(tag.ids_per_second));
  setText(seconds, tag.seconds_left === null ? "unused" : group(tag.seconds_left));
  const isShort = tag.seconds_left !== null && tag.seconds_left < 60 && tag.lease_error !== "";
  seconds.className = isShort ? "number bad" : "number";
  setText(step, group(tag.step));
  setText(waiting, group(tag.waiting));
  waiting.className = tag.waiting > 0 ? "number warn" : "number";
  setText(lease, ago(tag.last_lease_ms_ago));
}

const search = { search: "", sort: "name", descending: "false", limit: "50", page: 1 };

// leafd finds the first 10,000 tags of an order.
const DEEPEST = 10000;

function showTags(view) {
  rows(byId("tag-rows"), view.tags, (tag) => tag.tag, tagRow, fillTag);
  const limit = Number(search.limit);
  const pages = Math.max(1, Math.ceil(view.matching / limit));
  const what = view.matching === 1 ? "1 tag" : `${group(view.matching)} tags`;
  setText(byId("count"), `${what}, page ${search.page} of ${group(pages)}`);
  byId("previous").disabled = search.page <= 1;
  byId("next").disabled = search.page >= pages || search.page * limit > DEEPEST;
  byId("no-tags").hidden = view.tags.length > 0;
}

// What a page of ten thousand tags may not show: the worst of all. Each is a button that brings it up.
function showWorst({ lowest, failing }) {
  byId("lowest").hidden = lowest === null;
  byId("failing").hidden = failing === 0;
  // U+2068 and U+2069 isolate a name that is written from right to left.
  const lasts = lowest && `Lowest: \u2068${lowest.tag}\u2069 lasts ${duration(lowest.seconds_left)}`;
  setText(byId("lowest"), lasts ?? "");
  setText(byId("failing"), failing === 1 ? "1 tag failing" : `${group(failing)} tags failing`);
}

// ---- Fleet ----

const FLEET_CELLS = [
  ["Worker", "number"], ["State", ""], ["Owner", ""], ["Address", ""], ["Last report", "number"],
  ["Ceiling", ""],
];

function showFleet({ workers, error }) {
  const note = byId("fleet-note");
  setText(note, error ?? (workers.length === 0 ? "The registry lists no workers." : ""));
  note.hidden = error === null && workers.length > 0;
  byId("fleet").hidden = workers.length === 0;
  rows(byId("fleet-rows"), workers, (one) => one.worker, () => rowOf(FLEET_CELLS), (row, one) => {
    const [worker, state, owner, address, report, ceiling] = row.children;
    setText(worker, String(one.worker));
    setText(state, one.state.replace("-", " ") + (one.own ? ", this host" : one.live ? ", live" : ""));
    state.className = one.live || one.own ? "good" : "";
    setText(owner, one.owner);
    setText(address, one.address);
    setText(report, one.reported_unix_ms > 0 ? time(one.reported_unix_ms) : "never");
    setText(ceiling, one.ceiling_unix_ms > 0 ? time(one.ceiling_unix_ms) : "none");
  });
}

// ---- The stream ----

let token = "";
let stream = null;
let awaySince = null;
let pause = FIRST_PAUSE;
let timer = 0;

function showLink(state, text) {
  byId("link").className = `link ${state}`;
  setText(byId("link-text"), text);
  document.body.classList.toggle("stale", state === "away");
}

function isUp() {
  awaySince = null;
  pause = FIRST_PAUSE;
  byId("refused").hidden = true;
  byId("main").classList.remove("refused");
  showLink("up", "Live");
}

function isAway() {
  awaySince ??= Date.now();
  showLink("away", `leafd is away since ${time(awaySince)}`);
}

// leafd is there and gives no data.
function isRefused(status, problem) {
  awaySince = null;
  showLink("", "leafd refuses");
  setText(byId("refused-why"), problem.detail ?? `leafd answers ${status}.`);
  byId("refused-rule").hidden = status !== 403;
  byId("token-form").hidden = status !== 403 && status !== 401;
  byId("refused").hidden = false;
  byId("tag-rows").replaceChildren();
  byId("fleet-rows").replaceChildren();
  for (const id of ["daemon", "snowflake", "forecasts"]) byId(id).replaceChildren();
  for (const part of document.querySelectorAll(".live")) part.hidden = true;
}

function onEvent(name, data) {
  if (name === "view") {
    for (const part of document.querySelectorAll(".live")) part.hidden = false;
    showDaemon(data);
    showSnowflake(data);
    showForecasts(data);
    showTags(data);
    showWorst(data);
    isUp();
  } else if (name === "workers") {
    showFleet(data);
  } else if (name === "pause") {
    pause = data.again_ms;
  }
}

// Takes whole events off the front of a text, and returns the rest.
function takeEvents(text) {
  const blocks = text.split("\n\n");
  const rest = blocks.pop();
  for (const block of blocks) {
    let name = "message";
    let data = "";
    for (const line of block.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      if (line.startsWith("data: ")) data += line.slice(6);
    }
    if (data !== "") onEvent(name, JSON.parse(data));
  }
  return rest;
}

async function read(control) {
  const headers = token === "" ? {} : { Authorization: `Bearer ${token}` };
  const options = { headers, signal: control.signal, cache: "no-store", credentials: "omit" };
  let silence = setTimeout(() => control.abort(), SILENCE);
  try {
    const answer = await fetch(`/v1/events?${new URLSearchParams(search)}`, options);
    if (!answer.ok) {
      const problem = await answer.json().catch(() => ({}));
      if (stream !== control) return;
      pause = Math.max(LONGEST_PAUSE, problem.retry_after_ms ?? 0);
      isRefused(answer.status, problem);
      return;
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || stream !== control) return;
      clearTimeout(silence);
      silence = setTimeout(() => control.abort(), SILENCE);
      text = takeEvents(text + value);
    }
  } catch {
    if (stream === control) isAway();
  } finally {
    clearTimeout(silence);
  }
}

function connect() {
  clearTimeout(timer);
  const old = stream;
  stream = new AbortController();
  old?.abort();
  const control = stream;
  read(control).then(() => {
    if (stream !== control || document.hidden) return;
    timer = setTimeout(connect, pause);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  });
}

// A browser gives a host few connections, so a page that nobody sees has none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(timer);
    stream?.abort();
    stream = null;
    showLink("", "Paused");
  } else {
    connect();
  }
});

// ---- Forms ----

function searchAgain() {
  const known = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) known.set(name, value);
  history.replaceState(null, "", `#${known}`);
  connect();
}

function turnPage(by) {
  search.page += by;
  searchAgain();
}

const FIELDS = { search: "search", sort: "sort", direction: "descending", limit: "limit" };

function readForm() {
  for (const [id, name] of Object.entries(FIELDS)) search[name] = byId(id).value;
  search.page = 1;
  searchAgain();
}

// What somebody chose is in the fragment, so that a link or a reload shows the same.
function readFragment() {
  const known = new URLSearchParams(location.hash.slice(1));
  for (const [id, name] of Object.entries(FIELDS)) {
    const field = byId(id);
    if (known.has(name)) field.value = known.get(name);
    if (field.value === "" && id !== "search") field.selectedIndex = 0;
    search[name] = field.value;
  }
  const page = Number(known.get("page") ?? 1);
  search.page = Number.isInteger(page) && page >= 1 && (page - 1) * Number(search.limit) <= DEEPEST ? page : 1;
}

function showFirst(sort, descending) {
  byId("search").value = "";
  byId("sort").value = sort;
  byId("direction").value = descending;
  readForm();
  byId("tags").focus();
}

byId("lowest").addEventListener("click", () => showFirst("seconds-left", "false"));
byId("failing").addEventListener("click", () => showFirst("failing", "true"));

let typing = 0;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(readForm, 250);
});
for (const id of ["sort", "direction", "limit"]) byId(id).addEventListener("change", readForm);
byId("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typing);
  readForm();
});
byId("previous").addEventListener("click", () => turnPage(-1));
byId("next").addEventListener("click", () => turnPage(1));

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  pause = FIRST_PAUSE;
  connect();
});

byId("decode-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const id = byId("decode-id").value.trim();
  const shown = byId("decode-parts");
  if (id === "") return;
  try {
    const answer = await fetch(`/v1/decode/${encodeURIComponent(id)}`, { cache: "no-store" });
    const parts = await answer.json();
    if (!answer.ok) {
      facts(shown, [["Not an ID", parts.detail, "bad"]]);
      return;
    }
    const number = [["ID", parts.form ? parts.id : null], ["Form", parts.form ?? null]];
    if (parts.time === undefined) {
      facts(shown, [...number, ["Day", parts.day ?? null]]);
      return;
    }
    facts(shown, [
      ...number,
      ["Time", parts.time],
      ["Milliseconds", group(parts.unix_ms)],
      ["Data centre", parts.datacenter ?? null],
      ["Worker", parts.worker],
      ["Sequence", parts.sequence],
      ["Layout", parts.layout],
    ]);
  } catch {
    facts(shown, [["Not decoded", "leafd does not answer", "bad"]]);
  }
});

readFragment();
connect();

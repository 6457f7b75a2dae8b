// Everything the reader sees. mountPlayground(root, workerSource) builds it inside any element.
// The build puts ARTICLE, the page's words and controls, and PUBLIC, its public address, before this.

const SAY = {
  start: "Random weights: every guess is as good as any other.",
  plateau: "The plateau: the second copy is as hard as the first. Nothing is copied yet.",
  stuck: "Still the plateau. Some settings never leave it.",
  change: "The change: the second copy gets easier than the first.",
  copying: (step) => `It has learned to copy${step === null ? "" : `: 90 % at step ${step}`}.`,
  past: (step) => `As it was at step ${step}. Train or Step goes on from the newest step.`,
  ablated: "Heads are ablated. Training goes on with all of them.",
};
const THEN = { ablate: "now ablate the heads labeled induction", type: "now type a name twice" };
const HOW = { zero: "What it writes is set to zero.", mean: "What it writes is set to its mean over these texts." };
const COPIED = 0.9;  // the share of letters from which the page says that it copies
const FAST = "1e9", PATIENCE = 2000;  // steps after which a run that does not copy ends
const headName = (layer, head) => `L${layer}H${head}`;
const percent = (share) => `${Math.round(100 * share)} %`;
const visible = (letter) => (letter === " " ? "␣" : letter);

/** Builds the playground inside root; returns a function that ends it. */
function mountPlayground(root, workerSource) {
  root.classList.add("playground");
  root.innerHTML = ARTICLE;
  const at = (id) => root.querySelector(`[data-id="${id}"]`), inputs = [...root.querySelectorAll("[data-set]")];
  const worker = new Worker(URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" })));
  const send = (command, more) => worker.postMessage({ command, run: state.run, ...more });
  const query = new URLSearchParams(location.search), state = { run: 0, playing: false, stale: true, frames: 0, pointed: null, onScreen: new Set() };
  const addressed = location.protocol !== "about:";  // inside a notebook the page has no address
  root.playgroundState = state;  // for tests
  root.classList.toggle("embed", query.has("embed"));

  function settings() {
    for (const input of inputs) if (input.type === "number") input.value = Math.min(Math.max(Math.round(+input.value) || +input.min, +input.min), +input.max);
    const [shortest, longest] = ["shortest", "longest"].map((name) => inputs.find((input) => input.dataset.set === name));
    if (+shortest.value > +longest.value) longest.value = shortest.value;
    const value = (input) => (input.type === "checkbox" ? input.checked : input.dataset.set === "repeatShare" ? input.value / 100 : isNaN(input.value) ? input.value : +input.value);
    return Object.fromEntries(inputs.map((input) => [input.dataset.set, value(input)]));
  }
  /** A new run of the settings; messages of an older one are dropped when they arrive. */
  function startOver(experiment = null) {
    const asked = settings();
    if (state.experiment) state.experiment.item.querySelector(".now").hidden = true;
    Object.assign(state, { run: state.run + 1, history: [], ablated: new Set(), last: null, newest: 0, change: null, copied: null, ended: false, offer: null, pace: [], experiment, film: [] });
    if (addressed) history.replaceState(null, "", address(location.href.split("#")[0]));
    at("sent").hidden = true;
    at("share").textContent = percent(asked.repeatShare);
    at("summary").textContent = summary(asked);
    send("reset", { settings: asked, until: experiment?.steps ?? PATIENCE });
    const on = state.playing;
    state.playing = false;
    play(on);
  }
  /** An address of the page with what is not as it was at first, so that a link replays the run. */
  function address(page = location.protocol.startsWith("http") ? location.origin + location.pathname : PUBLIC) {
    const given = settings(), changed = inputs.filter((input) => (input.type === "checkbox" ? input.checked !== input.defaultChecked : input.tagName === "SELECT" ? !input.selectedOptions[0].defaultSelected : input.value !== input.defaultValue));
    const said = new URLSearchParams(changed.map((input) => [input.dataset.set, given[input.dataset.set]])).toString();
    return `${page}${said ? `#${said}` : ""}`;
  }
  /** What the address asks for; what it does not know, or what no control offers, is left as it is. */
  function asked() {
    const found = {};
    for (const [name, text] of new URLSearchParams(addressed ? location.hash.slice(1) : "")) {
      const input = inputs.find((each) => each.dataset.set === name);
      if (!input || (input.tagName === "SELECT" && ![...input.options].some((o) => o.value === text))) continue;
      found[name] = input.type === "checkbox" ? text === "true" : isNaN(text) ? text : +text;
    }
    return found;
  }
  /** A run from the address, and a word that there is one. */
  function arrive() {
    const found = asked();
    choose(found);
    at("sent").hidden = !Object.keys(found).length;
    at("sent").textContent = `This link brings you a run: ${summary(settings())}. Train it, and you see what its sender saw, number for number.`;
  }
  function play(on) {
    if (on !== state.playing) send(on ? "play" : "pause");
    state.playing = on;
    at("play").textContent = on ? "❚❚ Pause" : state.ended ? "▶ Go on" : "▶ Train";
    if (on) { root.classList.add("begun"); state.offer = null; }
    state.stale = true;
  }
  function setSpeed(value) {
    at("speed").value = value;
    send("speed", { stepsPerSecond: +value });
  }
  /** Puts values into the controls and starts over; what is not named goes back to how it was at first. */
  function choose(changes, experiment) {
    for (const input of inputs) {
      const value = changes[input.dataset.set];
      if (input.type === "checkbox") input.checked = value ?? input.defaultChecked;
      else if (input.tagName === "SELECT") input.value = value ?? [...input.options].find((o) => o.defaultSelected).value;
      else input.value = value === undefined ? input.defaultValue : input.dataset.set === "repeatShare" ? value * 100 : value;
    }
    startOver(experiment);
  }
  function toggle(head) {
    state.ablated.has(head) ? state.ablated.delete(head) : state.ablated.add(head);
    ablate();
  }
  function ablate() {
    at("howSays").textContent = HOW[at("how").value];
    send("ablate", { heads: [...state.ablated].map((head) => [head, at("how").value]) });
  }
  function save(name, blob) {
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    at("kept").textContent = `Saved as ${name}`;
  }
  function goTo(element, block = "start") {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    element.scrollIntoView({ behavior: calm ? "auto" : "smooth", block });
  }
  /** What stands at the window's lower edge: the words, and a button that leads to a place. */
  function lead(words, element, block, says = "") {
    state.offer = says ? "end" : "experiment";
    state.stale = true;
    at("endSays").textContent = says;
    at("ways").hidden = !says;
    Object.assign(at("next"), { textContent: `${words} ↓`, onclick: () => { state.offer = null; state.stale = true; goTo(element, block); } });
  }
  function runExperiment(experiment) {
    choose(experiment.settings, experiment);
    setSpeed(FAST);
    play(true);
    goTo(at("stage"));
  }
  /** When training is over: what came out, or first what the reader has to do. */
  function endTraining({ each, induction, together }) {
    const { experiment, latest: { whole: { copied }, newest } } = state;
    state.ended = true;
    play(false);
    if (!experiment) return lead("Which part of it copies?", at("which"), "start", each ? hangsOn(each, induction, together, copied) : `By step ${newest} it has not learned to copy: ${percent(copied)} are copied.`);
    experiment.trained = true;
    if (!experiment.then) return tell(experiment);
    const place = experiment.then === "ablate" ? at("which") : at("typed").closest("section"), words = THEN[experiment.then];
    lead(`Experiment ${experiment.number}: ${words}`, place);
    Object.assign(experiment.item.querySelector(".now"), { hidden: false, textContent: `${words[0].toUpperCase()}${words.slice(1)} ↑`, onclick: () => goTo(place) });
  }
  function tell(experiment) {
    state.experiment = null;
    experiment.item.querySelector(".now").hidden = true;
    experiment.item.querySelector(".outcome").hidden = false;
    lead(`Experiment ${experiment.number}: what came out`, experiment.item, "center");
  }
  function didThen(what) {
    if (state.experiment?.trained && state.experiment.then === what) tell(state.experiment);
  }
  worker.onmessage = ({ data }) => {
    if (data.file) return save(`induction-seed${data.seed}-step${data.step}.safetensors`, new Blob([data.file]));
    if (data.run !== state.run) return;
    const now = performance.now(), past = data.step < data.newest;
    state.last = data;
    state.stale = true;
    if (past) return;
    Object.assign(at("film"), { max: data.newest, value: data.newest, disabled: !data.newest });
    state.pace = [...state.pace.filter(([t]) => t > now - 1000), [now, data.step]];
    if (!state.history.length || data.step > state.newest) {  // curves show the whole model
      if (!data.ablated.length) keepFrame(state.film, data);
      const { first, second, scores } = data.whole;
      state.history.push({ step: data.step, first, second, scores });
    }
    [state.change, state.copied] = [data.change, data.copiedAt];
    state.latest = data;
    state.newest = data.newest;
    if (data.ended) endTraining(data.ended);
  };
  worker.onerror = (event) => { at("news").textContent = `Training stopped: ${event.message}`; };

  for (const input of inputs) input.addEventListener("input", () => startOver());
  at("play").onclick = () => {
    if (!state.newest && at("losses").getBoundingClientRect().bottom > innerHeight) goTo(at("stage"));
    play(!state.playing);
  };
  at("step").onclick = () => { if (state.playing) play(false); root.classList.add("begun"); send("step"); };
  at("reset").onclick = () => startOver();
  at("close").onclick = () => { state.offer = null; state.stale = true; };
  at("how").onchange = ablate;
  at("film").oninput = (event) => { if (state.playing) play(false); send("visit", { step: +event.target.value }); };
  at("link").hidden = !addressed;
  at("link").onclick = async () => {
    try { await navigator.clipboard.writeText(address()); at("kept").textContent = "The link is copied."; } catch { at("kept").textContent = address(); }
  };
  at("result").onclick = async () => {
    const odd = /[#&](?!seed=)\w+=/.test(new URL(address()).hash);
    if (odd || !state.copied) return void (at("kept").textContent = odd ? "For a group's result change the seed alone." : "There is no result yet: train until 90 % are copied.");
    const name = prompt("Your name, as your group will see it") ?? "", by = name.normalize("NFC").replace(/[\s#=]+/g, " ").trim().replace(/ /g, "_");
    if (!by) return;
    const body = `birth by=${by} mine=${settings().seed} step=${state.copied} at=${new Date().toTimeString().slice(0, 5)}`, line = `aot ${body} #${checksum(body)}`;
    try { await navigator.clipboard.writeText(line); at("kept").textContent = `Copied: ${line}`; } catch { at("kept").textContent = line; }
  };
  at("card").onclick = () => paintCard(state, settings(), address()).toBlob((blob) => save(`induction-seed${settings().seed}.png`, blob));
  at("weights").onclick = () => send("export");
  at("speed").onchange = (event) => setSpeed(event.target.value);
  at("typed").oninput = (event) => { state.pointed = null; send("read", { letters: event.target.value }); didThen("type"); };
  const own = at("text"), point = (i) => { state.pointed = i; state.stale = true; };
  own.onpointerover = (event) => { const cell = event.target.closest("[data-i]"); if (cell) point(+cell.dataset.i); };
  own.onpointerleave = (event) => { if (event.pointerType === "mouse") point(null); };
  own.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -OWN_WIDTH, ArrowDown: OWN_WIDTH }[event.key], last = own.children.length - 1;
    if (!by || last < 0) return;
    event.preventDefault();
    point(Math.min(last, Math.max(0, state.pointed === null ? 0 : state.pointed + by)));
  };
  const bar = at("play").closest(".bar"), resized = new ResizeObserver(() => { state.stale = true; root.style.setProperty("--bar", `${bar.offsetHeight}px`); });
  for (const each of [root, bar]) resized.observe(each);
  const seen = new IntersectionObserver((entries) => {  // what is not on the screen is not drawn
    for (const { target, isIntersecting } of entries) state.onScreen[isIntersecting ? "add" : "delete"](target.dataset.id);
    state.stale = true;
  }, { rootMargin: "300px" });
  for (const id of ["once", "again", "heads", "text"]) seen.observe(at(id));
  const theme = matchMedia("(prefers-color-scheme: dark)"), isDark = () => document.body.classList.contains("dark");
  theme.onchange = () => { state.stale = true; state.colors = null; };
  showExperiments(at("experiments"), runExperiment);

  let running = true;
  function frame() {
    if (!running) return;
    if (state.stale && state.last) {
      state.stale = false;
      state.frames++;
      state.colors ??= colorsOf(root, isDark());
      draw(state, at, (head) => { toggle(head); didThen("ablate"); });
    }
    requestAnimationFrame(frame);
  }
  setSpeed(at("speed").value);
  arrive();
  if (addressed) window.addEventListener("hashchange", arrive);
  send("read", { letters: at("typed").value });
  ablate();
  if (query.has("autostart")) play(true);
  frame();
  return () => { running = false; window.removeEventListener("hashchange", arrive); worker.terminate(); resized.disconnect(); seen.disconnect(); };
}

/** The end of a text's CRC-32, by which chapters/group/lines.py knows a line that is whole. */
function checksum(text) {
  const step = (crc) => (crc >>> 1) ^ (0xedb88320 & -(crc & 1)), eight = (crc, byte) => Array.from({ length: 8 }).reduce(step, crc ^ byte);
  return (~new TextEncoder().encode(text).reduce(eight, -1) & 0xffff).toString(16).padStart(4, "0");
}

/** What the copying hangs on: what is left without each head alone, and without all induction heads. */
function hangsOn(each, induction, together, copied) {
  const lost = each.filter(({ left }) => left < copied / 2), rest = each.filter((head) => !lost.includes(head)).map(({ left }) => left);
  const said = [...lost.map(({ name, left }) => `${percent(left)} without ${name}`), ...(rest.length ? [`at least ${percent(Math.min(...rest))} without any ${lost.length ? "other" : "one"}`] : [])];
  const all = induction.length > 1 ? ` Without all heads labeled induction, ${induction.join(" and ")}, it copies ${percent(together)}.` : "";
  return `It copies ${percent(copied)} now. With one head switched off: ${said.join(", ")}.${all}`;
}

/** The settings in one line. */
function summary({ nLayers, nHeads, positions, smearedKeys, repeatShare, looksBackStart, tiedStart, seed }) {
  const layers = nLayers ? `${nLayers} layer${nLayers > 1 ? "s" : ""} of ${nHeads} head${nHeads > 1 ? "s" : ""}` : "no layers";
  const parts = [layers, positions === "none" ? "no positions" : `${positions === "standard" ? "learned" : positions} positions`];
  if (smearedKeys) parts.push("smeared keys");
  parts.push(`${percent(repeatShare)} written twice`);
  if (looksBackStart || tiedStart) parts.push("a given start");
  return [...parts, `seed ${seed}`].join(" · ");
}

const OWN_WIDTH = 23;

function draw(state, at, toggle) {
  const { last, pace, playing, onScreen, offer } = state, { ablated } = last, past = last.step < last.newest, shows = (id) => onScreen.has(id) || !at(id).children.length;
  const [from, to] = [pace[0], pace[pace.length - 1]], speed = playing && to[0] > from[0] ? (1000 * (to[1] - from[1])) / (to[0] - from[0]) : 0;
  at("count").textContent = `step ${last.step}${playing && speed ? ` · ${speed.toFixed(0)} a second` : ""}`;
  at("copied").textContent = percent(last.copied);
  at("meter").style.width = `${100 * last.copied}%`;
  say(at("news"), past ? SAY.past(last.step) : ablated.length ? SAY.ablated : last.step < 5 ? SAY.start : last.copied >= COPIED ? SAY.copying(state.copied) : state.change !== null ? SAY.change : last.step > 500 ? SAY.stuck : SAY.plateau);
  say(at("without"), ablated.length ? `Without ${[...ablated].sort().join(", ")}: ${percent(last.copied)} copied; with all heads ${percent(last.whole.copied)}.` : "");
  at("end").hidden = !(offer === "experiment" || (offer === "end" && onScreen.has("once")));
  at("film").setAttribute("aria-valuetext", `step ${last.step}`);
  drawLosses(at("losses"), state);
  if (shows("heads")) drawHeads(at("heads"), state, toggle);
  const guesses = [last.guesses.slice(0, last.length), last.guesses.slice(last.length)];
  if (shows("once")) drawCells(at("once"), guesses[0], last.length);
  if (shows("again")) drawCells(at("again"), guesses[1], last.length);
  if (shows("text")) drawOwn(at, state);
}

/** New words, only if they are new: a screen reader says them when they change. */
function say(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

/** The typed text, and what there is to say of the letter that is pointed at. */
function drawOwn(at, { last, pointed }) {
  const guesses = last.reading ? last.reading.guesses : [], scores = last.scores.flat(), letter = guesses[pointed];
  const best = scores.reduce((b, s, h) => (s.induction > scores[b].induction ? h : b), 0), n = last.reading?.n;
  const from = letter && scores.length ? best * n * n + pointed * n + 1 : null;  // the row of the letter before the guess, without BOS
  const attends = from === null ? null : Array.from({ length: n - 1 }, (_, j) => (j < pointed ? last.reading.patterns[from + j] : 0));
  drawCells(at("text"), guesses, OWN_WIDTH, attends, pointed);
  let words = "Point at a letter, or reach it with the tab and arrow keys.";
  if (letter) {
    words = `“${visible(letter.letter)}” had a probability of ${Math.exp(-letter.surprise) < 0.01 ? "less than 1 %" : percent(Math.exp(-letter.surprise))}; the best guess was “${visible(letter.guess)}”.`;
    if (attends && pointed) {
      const most = attends.indexOf(Math.max(...attends)), { nHeads } = last.config;
      words += ` ${headName(Math.floor(best / nHeads), best % nHeads)} attended most to letter ${most + 1}, “${visible(guesses[most].letter)}” (${attends[most].toFixed(2)}).`;
    }
  }
  say(at("pointedSays"), words);
}

/** Letters in rows of `width`, shaded by surprise, each with the best guess below it. */
function drawCells(element, guesses, width, attends, pointed) {
  while (element.children.length > guesses.length) element.lastChild.remove();
  while (element.children.length < guesses.length) {
    const cell = document.createElement("span");
    cell.innerHTML = "<b></b><i></i>";
    cell.dataset.i = element.children.length;
    element.append(cell);
  }
  element.style.setProperty("--width", width);
  guesses.forEach(({ letter, surprise, guess }, i) => {
    const cell = element.children[i], [actual, best] = cell.children;
    say(actual, visible(letter));
    say(best, visible(guess));
    const name = (letter === guess ? "right" : "") + (i === pointed ? " pointed" : "");
    if (cell.className !== name) cell.className = name;
    shade(cell, "--surprise", Math.min(1, surprise / 5));
    shade(cell, "--look", attends ? attends[i] : 0);
  });
  const right = guesses.filter(({ letter, guess }) => letter === guess).length;
  element.setAttribute("aria-label", `Letters ${guesses.map((g) => g.letter).join(" ")}; guessed right: ${right} of ${guesses.length}`);
}

/** A property in twentieths, set only if it is new: the browser styles again what is set. */
function shade(cell, property, value) {
  const twentieths = Math.round(20 * value) / 20;
  if (cell[property] !== twentieths) cell.style.setProperty(property, (cell[property] = twentieths));
}

/** A canvas's context, cleared, in CSS pixels. */
function fresh(canvas) {
  const scale = devicePixelRatio || 1, { clientWidth: w, clientHeight: h } = canvas;
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) { canvas.width = Math.round(w * scale); canvas.height = Math.round(h * scale); }
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, w, h);
  return { g, w, h };
}
/** The page's colors, read once for each theme: asking for them in every frame is slow. */
function colorsOf(root, dark) {
  const style = getComputedStyle(root), names = ["ink", "pale", "rule", "query", "key", "value", "share"];
  return { dark, ...Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])) };
}
const ENDS = [300, 600, 1000, 2000, 5000, 10000, 20000, 50000, 1e5];  // of the axis of steps
const lastStepShown = (history) => { const now = history.length ? history[history.length - 1].step : 0; return ENDS.find((step) => step >= now) ?? now; };
const acrossOf = (end, left, right) => (step) => left + ((right - left) * step) / end;

function drawLosses(canvas, { history, change, copied, last: shown, colors }) {
  const { g, w, h } = fresh(canvas), { ink, pale, rule, query, key, value } = colors, left = 26, right = w - 86, top = 6, bottom = h - 20, high = 5;
  const end = lastStepShown(history), across = acrossOf(end, left, right), down = (loss) => bottom - ((bottom - top) * Math.min(loss, high)) / high;
  g.font = "12px system-ui, sans-serif";
  g.lineWidth = 1;
  for (let loss = 0; loss <= 4; loss += 1) line(g, left, down(loss), right, down(loss), rule, String(loss), left - 8, down(loss) + 4, pale, "right");
  for (let i = 0, parts = end > 600 ? 5 : 3; i <= parts; i++) { const step = (end * i) / parts; line(g, across(step), bottom, across(step), bottom + 4, pale, String(step), across(step), h - 4, pale, "center"); }
  if (!history.length) return;
  const guess = Math.log(63), now = history[history.length - 1];
  g.setLineDash([2, 3]);
  line(g, left, down(guess), right, down(guess), pale, ...(change > 30 ? ["plateau", left + 6, down(guess) + 16, pale, "left"] : []));
  if (shown.step < shown.newest) { g.setLineDash([]); line(g, across(shown.step), top, across(shown.step), bottom, pale); g.setLineDash([2, 3]); }
  const mark = across(copied ?? change ?? 0), early = mark < (left + right) / 2, x = early ? mark + 6 : across(change ?? 0) - 6, side = early ? "left" : "right";
  if (change !== null) line(g, across(change), top, across(change), bottom, ink, `change: step ${change}`, x, down(2.9), ink, side);
  if (copied !== null) line(g, across(copied), top, across(copied), bottom, value, `90 % copied: step ${copied}`, x, Math.max(down(2.4), down(2.9) + 14), value, side);
  g.setLineDash([]);
  const ends = { first: down(now.first) + 4, second: down(now.second) + 4 };
  if (ends.second - ends.first < 15) { const middle = (ends.first + ends.second) / 2; ends.first = middle - 7.5; ends.second = middle + 7.5; }
  for (const [name, color] of [["first", key], ["second", query]]) {
    g.strokeStyle = g.fillStyle = color;
    g.lineWidth = 2.2;
    g.beginPath();
    for (const point of history) g.lineTo(across(point.step), down(point[name]));
    g.stroke();
    g.textAlign = "left";
    g.font = "600 12px system-ui, sans-serif";
    g.fillText(`${name} ${now[name].toFixed(2)}`, Math.min(across(now.step) + 6, right + 6), ends[name]);
  }
}

function line(g, x0, y0, x1, y1, color, words, x, y, ink, align) {
  g.strokeStyle = color;
  g.beginPath(); g.moveTo(x0, y0); g.lineTo(x1, y1); g.stroke();
  if (words) { g.fillStyle = ink; g.textAlign = align; g.fillText(words, x, y); }
}

const SHADES = { light: [[255, 255, 255], [201, 169, 219], [123, 63, 153], [63, 26, 87]], dark: [[27, 25, 32], [86, 52, 108], [163, 108, 199], [240, 226, 250]] };
/** 256 colors of shares, from none to all. */
function palette(stops) {
  return Array.from({ length: 256 }, (_, i) => { const x = (i / 255) * 3, k = Math.min(2, Math.floor(x)); return stops[k].map((a, c) => a + (stops[k + 1][c] - a) * (x - k)); });
}
const PALETTES = { light: palette(SHADES.light), dark: palette(SHADES.dark) };

function drawHeads(element, { last, history, ablated, colors }, toggle) {
  const { config: c, n, patterns, scores, length } = last, names = [];
  for (let l = 0; l < c.nLayers; l++) for (let h = 0; h < c.nHeads; h++) names.push(headName(l, h));
  if (element.dataset.names !== names.join() + n) {  // new cards only for a model of another shape
    element.dataset.names = names.join() + n;
    element.replaceChildren(...(names.length ? names.map((name, i) => headCard(name, Math.floor(i / c.nHeads), i % c.nHeads, n, length, toggle)) : [Object.assign(document.createElement("p"), { className: "none", textContent: "A model without layers has no heads. It sees one letter and guesses the next." })]));
  }
  names.forEach((name, i) => {
    const card = element.children[i], { previous, induction } = scores[Math.floor(i / c.nHeads)][i % c.nHeads];
    paintPattern(card.querySelector("canvas"), patterns.subarray(i * n * n, (i + 1) * n * n), n, colors.dark);
    card.setAttribute("aria-pressed", ablated.has(name));
    card.querySelector(".previous").lastChild.data = previous.toFixed(2);
    card.querySelector(".induction").lastChild.data = induction.toFixed(2);
    card.querySelector(".kind").textContent = ablated.has(name) ? "ablated" : induction > 0.5 ? "induction" : previous > 0.5 ? "previous" : "";
    card.dataset.kind = induction > 0.5 ? "induction" : previous > 0.5 ? "previous" : "";
    drawScores(card.querySelector(".spark"), history, Math.floor(i / c.nHeads), i % c.nHeads, colors);
  });
}

function headCard(name, layer, head, n, length, toggle) {
  const card = document.createElement("button");
  card.className = "head";
  card.style.gridColumn = head + 1;
  card.style.gridRow = layer + 1;
  card.style.setProperty("--half", `${(100 * (length + 1)) / n}%`);
  card.innerHTML = `<span class="title"><b>${name}</b> <span class="kind"></span></span><span class="frame"><canvas width="${n}" height="${n}" aria-hidden="true"></canvas></span>
    <canvas class="spark" aria-hidden="true"></canvas><span class="scores"><span class="previous"><span class="unseen">, previous-token score </span>0</span><span class="induction"><span class="unseen">, induction score </span>0</span></span>`;
  card.onclick = () => toggle(name);
  return card;
}

function paintPattern(canvas, pattern, n, dark) {
  const g = canvas.getContext("2d"), image = g.createImageData(n, n), colors = PALETTES[dark ? "dark" : "light"];
  for (let i = 0; i < n * n; i++) {
    const future = i % n > Math.floor(i / n), [r, green, b] = colors[Math.round(255 * Math.min(1, pattern[i]))];
    image.data.set([r, green, b, future ? 0 : 255], 4 * i);
  }
  g.putImageData(image, 0, 0);
}

function drawScores(canvas, history, layer, head, colors) {
  const { g, w, h } = fresh(canvas), across = acrossOf(lastStepShown(history), 0, w);
  g.lineWidth = 1.5;
  for (const [name, color] of [["previous", colors.key], ["induction", colors.share]]) {
    g.strokeStyle = color;
    g.beginPath();
    for (const { step, scores } of history) g.lineTo(across(step), h - 1 - (h - 2) * scores[layer][head][name]);
    g.stroke();
  }
}

/** The guided experiments: a prediction first, then the settings at a click, then what came out in five runs. */
function showExperiments(element, run) {
  EXPERIMENTS.forEach((experiment, i) => {
    const item = document.createElement("li"), { title, question, answers, right, outcome } = experiment;
    item.innerHTML = `<h3>${i + 1}. ${title}</h3><p>${question}</p><div class="answers" role="group" aria-label="Your prediction">${answers.map((answer) => `<button aria-pressed="false">${answer}</button>`).join("")}</div>
      <button class="run" disabled>Predict, then run</button><button class="now" hidden></button><p class="outcome" role="status" hidden><b></b> ${outcome}</p>`;
    const buttons = [...item.querySelectorAll(".answers button")], start = item.querySelector(".run");
    buttons.forEach((button, chosen) => {
      button.onclick = () => {
        for (const b of buttons) b.setAttribute("aria-pressed", b === button);
        start.disabled = false;
        start.textContent = "Run it";
        item.querySelector(".outcome b").textContent = chosen === right ? "As you expected." : "Not what you expected.";
      };
    });
    start.onclick = () => { item.querySelector(".outcome").hidden = true; run({ ...experiment, number: i + 1, item, trained: false }); };
    element.append(item);
  });
}

/** Keeps the patterns of every fifth step; of more than 120 every second one goes. */
function keepFrame(film, { step, n, copied, patterns, scores }) {
  if (film.length && step < film[film.length - 1].step + 5) return;
  film.push({ step, n, copied, scores: scores.flat(), patterns: patterns.slice() });
  if (film.length > 120) for (let i = film.length - 2; i > 0; i -= 2) film.splice(i, 1);
}

/** A picture to share: how the induction head formed, in six patterns, and the step at which copying came. */
function paintCard({ film, copied, latest: last }, { seed, nLayers, nHeads }, address) {
  const width = 1200, height = 480, side = 172, apart = 190, left = 40;
  const canvas = Object.assign(document.createElement("canvas"), { width, height }), g = canvas.getContext("2d");
  const write = (words, x, y, font, color) => { g.font = `${font} system-ui, sans-serif`; g.fillStyle = color; g.fillText(words, x, y, width - x - left); };
  g.fillStyle = "#fff";
  g.fillRect(0, 0, width, height);
  const end = { step: last.step, n: last.n, scores: last.scores.flat(), patterns: last.patterns };
  const best = end.scores.reduce((b, s, h) => (s.induction > end.scores[b].induction ? h : b), 0), name = headName(Math.floor(best / nHeads), best % nHeads);
  const formed = copied !== null && end.scores[best]?.induction > 0.5;
  write(copied === null ? `Step ${last.step}: nothing is copied yet` : `${formed ? "An induction head" : "Copying"}, born at step ${copied}`, left, 70, "600 42px", "#23212a");
  write(`${nLayers} layer${nLayers === 1 ? "" : "s"} of attention heads, seed ${seed}, trained in a browser tab: ${percent(last.copied)} of random letters copied`, left, 108, "22px", "#66636f");
  const about = copied ?? last.step, nearest = (step) => film.reduce((a, b) => (Math.abs(b.step - step) < Math.abs(a.step - step) ? b : a), end);
  const shown = end.scores.length ? [0, 0.5, 0.75, 0.9, 1].map((part) => nearest(part * about)).concat(end) : [];
  shown.filter((frame, i) => !shown.slice(i + 1).some((later) => later.step === frame.step)).forEach(({ step, n, patterns, scores }, i) => {
    const small = Object.assign(document.createElement("canvas"), { width: n, height: n }), x = left + apart * i;
    paintPattern(small, patterns.subarray(best * n * n, (best + 1) * n * n), n, false);
    g.imageSmoothingEnabled = false;
    g.drawImage(small, x, 140, side, side);
    g.strokeStyle = "#cfccd6";
    g.strokeRect(x, 140, side, side);
    write(`step ${step}`, x, 342, "22px", "#23212a");
    write(`score ${scores[best].induction.toFixed(2)}`, x, 370, "22px", "#7b3f99");
  });
  if (shown.length) write(`Head ${name}: what each letter attends to, and its induction score. Random letters, written twice.`, left, 412, "20px", "#66636f");
  write(`Attention-only transformers · ${address.replace(/^\w+:\/\//, "")}`, left, 452, "600 20px", "#7b3f99");
  return canvas;
}

// Everything the reader sees. mountPlayground(root, workerSource) builds it inside any element.

const SKELETON = `
<header>
  <h1>Watch an induction head form</h1>
  <p>An attention-only transformer, trained in this tab from random weights. It reads random letters <b class="first">once</b> and then <b class="second">again</b>: will it learn to copy?</p>
</header>
<div class="bar" role="toolbar" aria-label="Training">
  <button class="main" data-id="play">▶ Train</button>
  <button data-id="step">Step</button>
  <button data-id="reset">Start over</button>
  <label>Speed <select data-id="speed" aria-label="Speed"><option value="8">8 steps/s</option><option value="30" selected>30 steps/s</option><option value="1e9">full speed</option></select></label>
  <output data-id="count"></output>
</div>
<div class="film"><label for="film">Look back</label><input type="range" id="film" data-id="film" min="0" max="0" value="0" disabled aria-label="Training step that is shown"><output data-id="shown">step 0</output></div>
<p class="news"><b class="copied"><span data-id="copied">0 %</span> copied</b> <span data-id="news" role="status"></span><button data-id="back" class="back" hidden></button><i class="meter"><i data-id="meter"></i></i></p>
<div class="columns">
<section class="losses">
  <h2>Loss <small>nats per letter, by step</small></h2>
  <canvas data-id="losses" role="img" aria-label="Loss of the first and of the second copy against the training step, on a log axis"></canvas>
</section>
<section class="middle">
  <h2>Heads <small>click one to ablate it: <select data-id="how" aria-label="How a head is ablated"><option value="zero" selected>zero ablation</option><option value="mean">mean ablation</option></select></small></h2>
  <div class="heads" data-id="heads"></div>
  <p class="legend">Attention patterns: each row is a query, each column a key; in the dotted box, the second copy attends to the first. Below each: the <b class="previous">previous-token score</b> (attention to the letter before) and the <b class="induction">induction score</b> (in the second copy, attention to the letter that came next in the first), now and by step.</p>
</section>
<section class="texts">
  <h2>Random letters, <b class="first">once</b> and <b class="second">again</b> <small>below each: the best guess</small></h2>
  <div class="cells" data-id="probe"></div>
  <h2><label for="typed">Your text</label> <small>a made-up name, twice</small></h2>
  <input id="typed" data-id="typed" maxlength="47" autocomplete="off" autocapitalize="off" spellcheck="false" value="Quzo Fipja met me. Quzo Fipja sang.">
  <div class="cells" data-id="text"></div>
  <p class="legend"><i class="swatch"></i> surprising. <b class="right">Green</b>: guessed right. Point at a letter, or reach it with the tab key: <b class="induction">framed</b> is what the head with the highest induction score attended to when it was guessed.</p>
</section>
<section class="settings" aria-label="Settings">
  <details open data-id="panel"><summary>Settings</summary>
  <small>A change starts over.</small>
  <fieldset><legend>Model</legend>
    <label>Layers <select data-set="nLayers"><option>0</option><option>1</option><option selected>2</option></select></label>
    <label>Heads per layer <select data-set="nHeads"><option>1</option><option>2</option><option selected>4</option></select></label>
    <label>Positions <select data-set="positions"><option selected>relative</option><option value="standard">learned</option><option>none</option></select></label>
    <label class="tick"><input type="checkbox" data-set="smearedKeys"> <span>Smeared keys <small>each key mixed with the one before</small></span></label>
    <label>Own share at the start <select data-set="smearStart"><option value="-2">0.12</option><option value="0" selected>0.50</option><option value="2">0.88</option></select></label>
  </fieldset>
  <fieldset><legend>Training texts</legend>
    <label class="wide">Written twice <output data-id="share">100 %</output><input type="range" min="0" max="100" step="10" value="100" data-set="repeatShare"></label>
    <label class="wide">Segments, in letters <span><input type="number" min="1" max="23" value="4" data-set="shortest" aria-label="Shortest segment, in letters"> to <input type="number" min="1" max="23" value="23" data-set="longest" aria-label="Longest segment, in letters"></span></label>
    <small>7 in 10 segments are random letters, 3 in 10 are cut from stories. Windows that are not written twice are stories.</small>
  </fieldset>
  <fieldset><legend>Given at the start</legend>
    <label class="tick"><input type="checkbox" data-set="looksBackStart"> <span>Head 0.<i>h</i> attends <i>h</i> letters back</span></label>
    <label class="tick"><input type="checkbox" data-set="tiedStart"> <span>W<sub>U</sub> is W<sub>E</sub> transposed</span></label>
    <small>No tick: all weights are random.</small>
  </fieldset>
  <label>Seed <input type="number" min="1" max="999" value="1" data-set="seed"></label>
  </details>
  <div class="keep"><button data-id="link">Copy a link to this run</button><button data-id="card">Save a picture</button><button data-id="weights">Save the weights</button><output data-id="kept" role="status"></output>
  <small>The weights are a safetensors file; <code>load_playground</code> of aot_helpers reads it.</small></div>
</section>
</div>
<section class="experiments" data-id="experiments"></section>
<section class="why"><h2>Why the loss of the first copy rises</h2><p>Nobody can guess random letters, so a model that gives all 63 the same probability, a loss of ln 63 = 4.14 nats, does as well as any can. Part of the training texts are stories, though, whose next letter can be guessed. While the model learns them it bets on the letters that stories would bring, and where random letters come it loses these bets: its loss on them rises above 4.14. Once it copies, it also bets on copies too early.</p></section>`;

const SAY = {
  start: "Random weights: every guess is as good as any other.",
  plateau: "The plateau: the second copy is as hard as the first. Nothing is copied.",
  stuck: "Still the plateau. Some runs never leave it: try another seed, or another setting.",
  change: "The change: the second copy gets easier than the first.",
  copying: "Copying: the second copy is guessed from the first.",
  off: (heads, how) => `${how === "mean" ? "Mean" : "Zero"}-ablated: ${heads.join(", ")}. Training goes on with all heads.`,
  past: (step) => `As it was at step ${step}. Train or Step goes on from the newest step.`,
};
const COPIED = 0.9;  // the share of letters from which the page says that it copies

/** Builds the playground inside root; returns a function that ends it. */
function mountPlayground(root, workerSource) {
  root.classList.add("playground");
  root.innerHTML = SKELETON;
  const at = (id) => root.querySelector(`[data-id="${id}"]`), inputs = [...root.querySelectorAll("[data-set]")];
  const worker = new Worker(URL.createObjectURL(new Blob([workerSource], { type: "text/javascript" })));
  const send = (command, more) => worker.postMessage({ command, ...more });
  const state = { history: [], ablated: new Set(), playing: false, last: null, newest: 0, change: null, copied: null, stale: true, frames: 0, pace: [], pointed: null, experiment: null, film: [] };
  root.playgroundState = state;  // for tests

  function settings() {
    for (const input of inputs) if (input.type === "number") input.value = Math.min(Math.max(Math.round(+input.value) || +input.min, +input.min), +input.max);
    const [shortest, longest] = ["shortest", "longest"].map((name) => inputs.find((input) => input.dataset.set === name));
    if (+shortest.value > +longest.value) longest.value = shortest.value;
    const value = (input) => (input.type === "checkbox" ? input.checked : input.dataset.set === "repeatShare" ? input.value / 100 : isNaN(input.value) ? input.value : +input.value);
    return Object.fromEntries(inputs.map((input) => [input.dataset.set, value(input)]));
  }
  function startOver() {
    Object.assign(state, { history: [], ablated: new Set(), last: null, newest: 0, change: null, copied: null, pace: [], experiment: null, film: [] });
    history.replaceState(null, "", address());
    at("back").hidden = true;
    at("share").textContent = `${Math.round(settings().repeatShare * 100)} %`;
    send("reset", { settings: settings() });
  }
  /** The page's address with what is not as it was at first, so that a link replays the run. */
  function address() {
    const given = settings(), changed = inputs.filter((input) => (input.type === "checkbox" ? input.checked !== input.defaultChecked : input.tagName === "SELECT" ? !input.selectedOptions[0].defaultSelected : input.value !== input.defaultValue));
    const said = new URLSearchParams(changed.map((input) => [input.dataset.set, given[input.dataset.set]])).toString();
    return `${location.href.split("#")[0]}${said ? `#${said}` : ""}`;
  }
  /** What the address asks for; what it does not know, or what no control offers, is left as it is. */
  function asked() {
    const found = {};
    for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
      const input = inputs.find((each) => each.dataset.set === name);
      if (!input || (input.tagName === "SELECT" && ![...input.options].some((o) => o.value === text))) continue;
      found[name] = input.type === "checkbox" ? text === "true" : isNaN(text) ? text : +text;
    }
    return found;
  }
  function play(on = !state.playing) {
    state.playing = on;
    at("play").textContent = on ? "❚❚ Pause" : "▶ Train";
    send(on ? "play" : "pause");
  }
  /** Puts values into the controls and starts over; what is not named goes back to how it was at first. */
  function choose(changes) {
    for (const input of inputs) {
      const value = changes[input.dataset.set];
      if (input.type === "checkbox") input.checked = value ?? input.defaultChecked;
      else if (input.tagName === "SELECT") input.value = value ?? [...input.options].find((o) => o.defaultSelected).value;
      else input.value = value === undefined ? input.defaultValue : input.dataset.set === "repeatShare" ? value * 100 : value;
    }
    startOver();
  }
  function toggle(head) {
    state.ablated.has(head) ? state.ablated.delete(head) : state.ablated.add(head);
    ablate();
  }
  function ablate() {
    send("ablate", { heads: [...state.ablated].map((head) => [head, at("how").value]) });
  }
  function save(name, blob) {
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    at("kept").textContent = `${name} saved`;
  }
  function runExperiment(experiment) {
    choose(experiment.settings);
    state.experiment = experiment;
    play(true);
    root.scrollIntoView({ behavior: "smooth" });
  }
  function endExperiment({ title, item }) {
    state.experiment = null;
    play(false);
    item.querySelector(".outcome").hidden = false;
    Object.assign(at("back"), { hidden: false, textContent: `${title}: what came out ↓`, onclick: () => item.scrollIntoView({ behavior: "smooth", block: "center" }) });
  }
  worker.onmessage = ({ data }) => {
    if (data.file) return save(`induction-seed${settings().seed}-step${data.step}.safetensors`, new Blob([data.file]));
    const now = performance.now(), past = data.step < data.newest;
    if (past) { state.last = data; state.stale = true; return; }
    Object.assign(at("film"), { max: data.newest, value: data.newest, disabled: !data.newest });
    state.pace = [...state.pace.filter(([t]) => t > now - 1000), [now, data.step]];
    if (!state.ablated.size && (!state.history.length || data.step > state.newest)) {  // curves show the whole model
      keepFrame(state.film, data);
      state.history.push({ step: data.step, first: data.first, second: data.second, scores: data.scores });
    }
    [state.change, state.copied] = [data.change, data.copiedAt];
    state.last = state.latest = data;
    state.newest = data.newest;
    state.stale = true;
    const { experiment, copied } = state;
    if (experiment && (data.step >= experiment.steps || (copied !== null && data.step >= copied + 60))) endExperiment(experiment);
  };
  worker.onerror = (event) => { at("news").textContent = `Training stopped: ${event.message}`; };

  for (const input of inputs) input.addEventListener("input", startOver);
  at("play").onclick = () => play();
  at("step").onclick = () => { if (state.playing) play(false); send("step"); };
  at("reset").onclick = startOver;
  at("how").onchange = ablate;
  at("film").oninput = (event) => { if (state.playing) play(false); send("visit", { step: +event.target.value }); };
  at("link").onclick = async () => {
    try { await navigator.clipboard.writeText(address()); at("kept").textContent = "link copied"; } catch { at("kept").textContent = address(); }
  };
  at("card").onclick = () => paintCard(state, settings()).toBlob((blob) => save(`induction-seed${settings().seed}.png`, blob));
  at("weights").onclick = () => send("export");
  at("speed").onchange = (event) => send("speed", { stepsPerSecond: +event.target.value });
  at("typed").oninput = (event) => send("read", { letters: event.target.value });
  at("text").onpointerover = at("text").onfocusin = (event) => { const cell = event.target.closest("[data-i]"); state.pointed = cell ? +cell.dataset.i : null; state.stale = true; };
  at("text").onpointerleave = () => { state.pointed = null; state.stale = true; };
  if (matchMedia("(max-width: 700px)").matches) at("panel").open = false;
  const resized = new ResizeObserver(() => { state.stale = true; });
  resized.observe(root);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.onchange = () => { state.stale = true; };
  showExperiments(at("experiments"), runExperiment);

  let running = true;
  function frame() {
    if (!running) return;
    if (state.stale && state.last) { state.stale = false; state.frames++; draw(state, at, root, dark.matches, toggle); }
    requestAnimationFrame(frame);
  }
  send("speed", { stepsPerSecond: +at("speed").value });
  choose(asked());
  send("read", { letters: at("typed").value });
  frame();
  return () => { running = false; worker.terminate(); resized.disconnect(); };
}

function draw(state, at, root, dark, toggle) {
  const { last, pace, playing, ablated } = state, percent = (share) => `${Math.round(100 * share)} %`;
  const [from, to] = [pace[0], pace[pace.length - 1]], speed = playing && to[0] > from[0] ? (1000 * (to[1] - from[1])) / (to[0] - from[0]) : 0;
  at("count").textContent = `step ${last.step}` + (last.msPerStep ? ` · ${playing ? `${speed.toFixed(0)} steps/s, ` : ""}${last.msPerStep.toFixed(0)} ms each` : "");
  at("copied").textContent = percent(last.copied);
  at("meter").style.width = `${100 * last.copied}%`;
  at("news").textContent = last.step < last.newest ? SAY.past(last.step) : ablated.size ? SAY.off([...ablated].sort(), at("how").value) : last.step < 5 ? SAY.start : last.copied >= COPIED ? SAY.copying : state.change !== null ? SAY.change : last.step > 500 ? SAY.stuck : SAY.plateau;
  at("shown").textContent = `step ${last.step}`;
  at("film").setAttribute("aria-valuetext", `step ${last.step}`);
  drawLosses(at("losses"), state, root);
  drawHeads(at("heads"), state, root, dark, toggle);
  drawCells(at("probe"), last.guesses, last.length);
  drawCells(at("text"), last.reading ? last.reading.guesses : [], last.length, looksOf(state));
}

/** Shares of attention of the pointed letter's guess in the typed text, by the head with the largest induction score. */
function looksOf({ last, pointed }) {
  if (pointed === null || !last.reading || !last.scores.length) return null;
  const all = last.scores.flat(), best = all.reduce((b, s, h) => (s.induction > all[b].induction ? h : b), 0), { n, patterns } = last.reading;
  return Array.from({ length: n - 1 }, (_, j) => (j < pointed ? patterns[best * n * n + pointed * n + j + 1] : 0));  // row: the letter before the guess
}

/** Letters in rows of `width`, shaded by surprise, each with the best guess below it. */
function drawCells(element, guesses, width, looks) {
  while (element.children.length > guesses.length) element.lastChild.remove();
  while (element.children.length < guesses.length) {
    const cell = document.createElement("span");
    cell.innerHTML = "<b></b><i></i>";
    cell.dataset.i = element.children.length;
    cell.tabIndex = 0;
    element.append(cell);
  }
  element.style.setProperty("--width", width);
  guesses.forEach(({ letter, surprise, guess }, i) => {
    const cell = element.children[i], [actual, best] = cell.children, visible = (x) => (x === " " ? "␣" : x);
    if (actual.textContent !== visible(letter)) actual.textContent = visible(letter);
    if (best.textContent !== visible(guess)) best.textContent = visible(guess);
    cell.classList.toggle("right", letter === guess);
    cell.style.setProperty("--surprise", Math.min(1, surprise / 5).toFixed(2));
    cell.style.setProperty("--look", looks ? looks[i].toFixed(2) : 0);
    cell.title = `${(100 * Math.exp(-surprise)).toFixed(1)} % for ${visible(letter)}; best guess ${visible(guess)}`;
  });
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
const colorOf = (root, name) => getComputedStyle(root).getPropertyValue(name).trim();
const lastStepShown = (history) => { const now = history.length ? history[history.length - 1].step : 0; return [300, 1000, 3000, 10000, 30000, 1e5].find((s) => s >= now) ?? now; };
const acrossOf = (end, left, right) => (step) => left + ((right - left) * Math.log(Math.max(step, 1))) / Math.log(end);

function drawLosses(canvas, { history, change, copied }, root) {
  const { g, w, h } = fresh(canvas), ink = colorOf(root, "--ink"), pale = colorOf(root, "--pale"), left = 26, right = w - 86, top = 6, bottom = h - 20, high = 5;
  const end = lastStepShown(history), across = acrossOf(end, left, right), down = (loss) => bottom - ((bottom - top) * Math.min(loss, high)) / high;
  g.font = "11px system-ui, sans-serif";
  g.lineWidth = 1;
  for (let loss = 0; loss <= 4; loss += 1) line(g, left, down(loss), right, down(loss), colorOf(root, "--rule"), String(loss), left - 8, down(loss) + 4, pale, "right");
  for (let step = 1; step <= end; step *= 10) line(g, across(step), bottom, across(step), bottom + 4, pale, String(step), across(step), h - 4, pale, step > 1 ? "center" : "left");
  if (end / 10 ** Math.floor(Math.log10(end)) > 1.5) line(g, right, bottom, right, bottom + 4, pale, String(end), right, h - 4, pale, "center");
  if (!history.length) return;
  const guess = Math.log(63), now = history[history.length - 1];
  g.setLineDash([2, 3]);
  line(g, left, down(guess), right, down(guess), pale, ...(change > 30 ? ["plateau", left + 6, down(guess) + 16, pale, "left"] : now.step < 10 ? ["dotted: a guess among 63 letters", right, down(guess) + 16, pale, "right"] : []));
  if (change !== null) line(g, across(change), top, across(change), bottom, ink, `change: step ${change}`, across(change) - 5, down(0.75), ink, "right");
  if (copied !== null) line(g, across(copied), top, across(copied), bottom, colorOf(root, "--value"), `90 % copied: step ${copied}`, across(copied) - 5, down(0.25), colorOf(root, "--value"), "right");
  g.setLineDash([]);
  const ends = { first: down(now.first) + 4, second: down(now.second) + 4 };
  if (ends.second - ends.first < 15) { const middle = (ends.first + ends.second) / 2; ends.first = middle - 7.5; ends.second = middle + 7.5; }
  for (const [name, color] of [["first", colorOf(root, "--key")], ["second", colorOf(root, "--query")]]) {
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

function drawHeads(element, { last, history, ablated }, root, dark, toggle) {
  const { config: c, n, patterns, scores, length } = last, names = [];
  for (let l = 0; l < c.nLayers; l++) for (let h = 0; h < c.nHeads; h++) names.push(`${l}.${h}`);
  if (element.dataset.names !== names.join() + n) {  // new cards only for a model of another shape
    element.dataset.names = names.join() + n;
    element.replaceChildren(...(names.length ? names.map((name) => headCard(name, c.nHeads, n, length, toggle)) : [Object.assign(document.createElement("p"), { className: "none", textContent: "A model without layers has no heads. It sees one letter and guesses the next." })]));
  }
  names.forEach((name, i) => {
    const card = element.children[i], { previous, induction } = scores[Math.floor(i / c.nHeads)][i % c.nHeads];
    paintPattern(card.querySelector("canvas"), patterns.subarray(i * n * n, (i + 1) * n * n), n, dark);
    card.setAttribute("aria-pressed", ablated.has(name));
    card.querySelector(".previous").textContent = previous.toFixed(2);
    card.querySelector(".induction").textContent = induction.toFixed(2);
    card.querySelector(".kind").textContent = ablated.has(name) ? "ablated" : induction > 0.5 ? "induction" : previous > 0.5 ? "previous" : "";
    card.dataset.kind = induction > 0.5 ? "induction" : previous > 0.5 ? "previous" : "";
    drawScores(card.querySelector(".spark"), history, Math.floor(i / c.nHeads), i % c.nHeads, root);
  });
}

function headCard(name, nHeads, n, length, toggle) {
  const card = document.createElement("button"), [layer, head] = name.split(".");
  card.className = "head";
  card.style.gridColumn = +head + 1;
  card.style.gridRow = +layer + 1;
  card.style.setProperty("--half", `${(100 * (length + 1)) / n}%`);
  card.setAttribute("aria-label", `Head ${name}: ablate it, or take it back`);
  card.innerHTML = `<span class="title"><b>${name}</b> <span class="kind"></span></span><span class="frame"><canvas width="${n}" height="${n}"></canvas></span>
    <canvas class="spark"></canvas><span class="scores"><span class="previous"></span><span class="induction"></span></span>`;
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

function drawScores(canvas, history, layer, head, root) {
  const { g, w, h } = fresh(canvas), across = acrossOf(lastStepShown(history), 0, w);
  g.lineWidth = 1.5;
  for (const [name, color] of [["previous", "--key"], ["induction", "--share"]]) {
    g.strokeStyle = colorOf(root, color);
    g.beginPath();
    for (const { step, scores } of history) g.lineTo(across(step), h - 1 - (h - 2) * scores[layer][head][name]);
    g.stroke();
  }
}

/** The guided experiments: a prediction first, then the settings at a click, then what came out in five runs. */
function showExperiments(element, run) {
  element.innerHTML = `<h2>Six experiments <small>predict first, then run: under a minute each</small></h2><ol></ol>`;
  for (const experiment of EXPERIMENTS) {
    const item = document.createElement("li"), { title, question, answers, outcome } = experiment;
    item.innerHTML = `<h3>${title}</h3><p>${question}</p><div class="answers" role="group" aria-label="Your prediction">${answers.map((answer) => `<button aria-pressed="false">${answer}</button>`).join("")}</div>
      <button class="run" disabled>Predict, then run</button><p class="outcome" hidden>${outcome}</p>`;
    const buttons = [...item.querySelectorAll(".answers button")], start = item.querySelector(".run");
    for (const button of buttons) button.onclick = () => { for (const b of buttons) b.setAttribute("aria-pressed", b === button); start.disabled = false; start.textContent = "Run it"; };
    start.onclick = () => run({ ...experiment, item });
    element.querySelector("ol").append(item);
  }
}

/** Keeps at most eight frames of the head with the highest induction score, each later than the one before. */
function keepFrame(film, { step, config: c, n, patterns, scores, copied }) {
  if (film.length && step < 1.25 * film[film.length - 1].step + 5) return;
  film.push({ step, n, copied, nHeads: c.nHeads, scores: scores.flat(), patterns: patterns.slice() });
  if (film.length > 24) film.splice(1, 1);
}

/** A picture to share: how the induction head formed, in up to six patterns, and the step at which copying came. */
function paintCard({ film, copied, latest: last }, { seed, nLayers }) {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1200, height: 430 }), g = canvas.getContext("2d");
  g.fillStyle = "#fff";
  g.fillRect(0, 0, 1200, 430);
  g.fillStyle = "#222";
  g.font = "600 40px system-ui, sans-serif";
  g.fillText(copied === null ? `Step ${last.step}: nothing is copied yet` : `An induction head, born at step ${copied}`, 40, 70);
  g.font = "22px system-ui, sans-serif";
  g.fillStyle = "#6d6d6d";
  g.fillText(`${nLayers} layer${nLayers === 1 ? "" : "s"} of attention heads, seed ${seed}, trained in a browser tab: ${Math.round(100 * last.copied)} % of random letters copied`, 40, 108);
  const end = film[film.length - 1], best = end ? end.scores.reduce((b, s, h) => (s.induction > end.scores[b].induction ? h : b), 0) : 0;
  const shown = film.length <= 6 ? film : [0, 1, 2, 3, 4, 5].map((i) => film[Math.round((i * (film.length - 1)) / 5)]);
  shown.forEach(({ step, n, nHeads, patterns, scores }, i) => {
    if (!scores.length) return;
    const small = Object.assign(document.createElement("canvas"), { width: n, height: n });
    paintPattern(small, patterns.subarray(best * n * n, (best + 1) * n * n), n, false);
    g.imageSmoothingEnabled = false;
    g.drawImage(small, 40 + 190 * i, 140, 170, 170);
    g.strokeStyle = "#cfccd6";
    g.strokeRect(40 + 190 * i, 140, 170, 170);
    g.fillStyle = "#222";
    g.fillText(`step ${step}`, 40 + 190 * i, 342);
    g.fillStyle = "#7b3f99";
    g.fillText(`score ${scores[best].induction.toFixed(2)}`, 40 + 190 * i, 370);
    if (!i) { g.fillStyle = "#6d6d6d"; g.fillText(`Attention pattern of head ${Math.floor(best / nHeads)}.${best % nHeads}; its induction score`, 40, 408); }
  });
  return canvas;
}

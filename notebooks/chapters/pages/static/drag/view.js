// What the reader sees of a training that can be dragged. mountTraining(root, source) builds it in
// any element. source: {steps, name, heads: {previous, induction}, read(name)}; without `read` it
// has `reading`, one text that was measured before. A reading: {tokens, spans, at(step, state)}.

const FRAME = `
<h1>When does a network learn to copy a name that it has never read?</h1>
<p class="name" data-id="ask"></p>
<div class="text" data-id="text" tabindex="0" role="group" aria-label="The text, piece by piece; arrow keys point at one"></div>
<p class="detail" data-id="detail" aria-live="polite"></p>
<div class="time">
  <svg data-id="curve" role="img" aria-label="Mean probability of the pieces of both mentions, by training step"></svg>
  <div class="ends" data-id="ends" aria-hidden="true"></div>
  <button class="play" data-id="play" aria-label="Play the training">▶</button>
  <div class="slide" data-id="slide"><input type="range" min="0" step="1" data-id="step" aria-label="Training step"></div>
  <output data-id="shown"></output>
</div>
<div class="maps">
  <div class="map"><button class="switch" role="switch" aria-checked="true" data-id="previous"></button><canvas data-id="previousMap" role="img"></canvas></div>
  <div class="map"><button class="switch" role="switch" aria-checked="true" data-id="induction"></button><canvas data-id="inductionMap" role="img"></canvas></div>
</div>
<p class="why" data-id="why"></p>`;

const LIGHT = "<span>The lighter a piece, the more probable the model found it before it read it.</span>";
const PURPLES = { light: [[255, 255, 255], [201, 169, 219], [123, 63, 153], [63, 26, 87]], dark: [[27, 25, 32], [86, 52, 108], [163, 108, 199], [240, 226, 250]] };
const between = (a, b, x) => a + (b - a) * x, mixed = (a, b, x) => a.map((v, i) => between(v, b[i], x));

function mountTraining(root, source) {
  root.classList.add("drag");
  root.innerHTML = FRAME;
  const at = (id) => root.querySelector(`[data-id="${id}"]`), last = source.steps.length - 1, { previous, induction } = source.heads;
  const state = { reading: source.reading, target: last, shown: last, off: 0, pointed: null, playing: false };
  root.trainingState = state;  // for tests
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches, theme = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => root.matches(".dark .follows-theme"), stepName = (k) => `step ${source.steps[k].toLocaleString("en-US")}`;
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim(), percent = (p) => `${(100 * p).toFixed(p < 0.0995 && p >= 0.0005 ? 1 : 0)} %`;

  // ---- what stands there from the first ----
  at("ask").innerHTML = source.read ? `<label for="drag-name">Make up a name</label> <input id="drag-name" maxlength="24" autocomplete="off" autocapitalize="words" spellcheck="false"> <span>and drag the training step.</span> ${LIGHT}`
    : `A story with the name <b></b>, twice. Drag the training step. ${LIGHT}`;
  if (!source.read) at("ask").querySelector("b").textContent = source.name;
  const names = { previous: [`Previous-token head ${previous.join(", ")}`, "attends to the token before"], induction: [`Induction head${induction.length > 1 ? "s" : ""} ${induction.join(" and ")}`, `attend to what followed last time; drawn: ${induction[0]}`] };
  for (const kind of ["previous", "induction"]) {
    at(kind).innerHTML = `<span><b>${names[kind][0]}</b><small>${names[kind][1]}</small></span>`;
    at(kind).onclick = () => {
      state.off ^= kind === "previous" ? 1 : 2;
      const on = !(state.off & (kind === "previous" ? 1 : 2));
      at(kind).setAttribute("aria-checked", on);
      at(kind).querySelector("small").textContent = on ? names[kind][1] : "switched off: zero-ablated";
      compute(); draw();
    };
  }
  at("why").innerHTML = `Nothing can tell the <b class="first">first mention</b> of a made-up name, but the <b class="second">second mention</b> can be copied. Copying takes two layers: a previous-token head tells each token which one stands before it, and induction heads use this to attend to what followed the present token last time (the <b class="share">induction stripe</b> in the dotted box) and to copy it. Switch off either kind (zero ablation), and the second mention turns dark again.`;
  const slider = at("step");
  slider.max = last;
  source.steps.forEach((step, k) => {
    const label = document.createElement("i");
    label.textContent = step.toLocaleString("en-US");
    label.className = (k % 2 && k < last) || k === last - 1 ? "between" : "";  // no room on a phone
    label.style.left = `calc(9px + ${k / last} * (100% - 18px))`;
    at("slide").append(label);
  });
  const labels = [...at("slide").querySelectorAll("i")];

  // ---- the text ----
  function newText() {
    const { tokens, spans } = state.reading;
    at("text").replaceChildren();
    tokens.forEach((token, i) => {
      const cell = document.createElement("span");
      cell.textContent = token;
      cell.dataset.i = i;
      spans.forEach(([from, to], which) => { if (i >= from && i < to) cell.className = which ? "second" : "first"; });
      if (!i || token.startsWith(" ")) at("text").append(document.createElement("div"));  // a word, which no line breaks
      at("text").lastChild.append(cell);
    });
    state.pointed = null;
    compute(); draw();
  }
  function readName(name) {
    const clean = name.replace(/\p{White_Space}+/gu, " ").trim();
    if (!clean) return;
    state.reading = source.read(clean);
    newText();
    try { history.replaceState(null, "", clean === source.name ? location.pathname + location.search : `#name=${encodeURIComponent(clean)}`); } catch { /* a page inside another has no address of its own */ }
  }

  // ---- numbers: those of the present steps at once, the others one after the other ----
  let job = 0;
  function compute() {
    const mine = ++job, reading = state.reading, todo = [];
    for (const off of [...new Set([state.off, 0])]) for (let k = last; k >= 0; k--) if (reading.has && !reading.has(k, off)) todo.push([k, off]);
    (function next() {
      if (mine !== job || reading !== state.reading) return;
      if (todo.length) { reading.at(...todo.shift()); drawCurve(); setTimeout(next); }
    })();
  }
  const known = (k, off) => !state.reading.has || state.reading.has(k, off);
  /** Mean probability of a mention's pieces, without the first, which nothing can tell. */
  function mean(p, which) {
    const [from, to] = state.reading.spans[which], own = p.slice(Math.min(from + 1, to - 1), to);
    return own.reduce((a, b) => a + b, 0) / own.length;
  }

  // ---- drawing ----
  function now() {
    const k = Math.min(Math.floor(state.shown), last - 1), x = state.shown - k, blend = (a, b) => (x ? Array.from(a, (v, i) => between(v, b[i], x)) : a);
    const [a, b] = x === 1 ? [state.reading.at(k + 1, state.off)] : x ? [state.reading.at(k, state.off), state.reading.at(k + 1, state.off)] : [state.reading.at(k, state.off)];
    if (!b) return a;
    return { p: blend(a.p, b.p), previous: blend(a.previous, b.previous), induction: blend(a.induction, b.induction), guesses: x > 0.5 ? b.guesses : a.guesses };
  }
  function draw() {
    const frame = now(), { tokens } = state.reading, n = tokens.length, [night, day] = ["--dark", "--light"].map((name) => color(name).split(",").map(Number)), row = state.pointed === null ? null : frame.induction.slice(state.pointed * (n + 1), (state.pointed + 1) * (n + 1));
    at("text").querySelectorAll("span").forEach((cell, i) => {
      const shade = mixed(night, day, frame.p[i]);
      cell.style.backgroundColor = `rgb(${shade.map(Math.round)})`;
      cell.style.color = shade[0] * 0.3 + shade[1] * 0.6 + shade[2] * 0.1 > 140 ? "#222" : "#fff";
      cell.style.setProperty("--look", row && i < state.pointed ? Math.min(1, row[i + 1]).toFixed(2) : 0);
      cell.classList.toggle("pointed", i === state.pointed);
    });
    const nearest = Math.round(state.shown);
    at("shown").textContent = stepName(nearest);
    slider.value = state.target;
    slider.setAttribute("aria-valuetext", `${stepName(nearest)}: second mention ${percent(mean(frame.p, 1))}, first ${percent(mean(frame.p, 0))}`);
    labels.forEach((label, k) => label.classList.toggle("now", k === nearest));
    drawMap(at("previousMap"), frame.previous, state.off & 1, `Attention pattern of ${previous[0]}`);
    drawMap(at("inductionMap"), frame.induction, state.off & 2, `Attention pattern of ${induction[0]}`);
    drawCurve(frame);
    const i = state.pointed, quoted = (token) => `“${token.replace(" ", "␣")}”`;
    if (i === null) at("detail").innerHTML = `improbable <i class="scale"></i> probable; point at a piece for its numbers`;
    else {
      const best = row.indexOf(Math.max(...row)), off = state.off & 2 ? ` (switched off)` : "";
      at("detail").textContent = `${quoted(tokens[i])} was expected with ${percent(frame.p[i])}; best guess ${quoted(frame.guesses[i])}; framed: ${induction[0]}${off} attended to ${best ? quoted(tokens[best - 1]) : "the start"} with ${row[best].toFixed(2)}`;
    }
  }

  function fitted(canvas) {
    const scale = devicePixelRatio || 1, side = canvas.clientWidth, pixels = Math.round(side * scale);
    if (canvas.width !== pixels) canvas.width = canvas.height = pixels;
    const g = canvas.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, side, side);
    return [g, side];
  }
  const small = document.createElement("canvas");
  function drawMap(canvas, pattern, off, said) {
    const n = Math.round(Math.sqrt(pattern.length)), [g, side] = fitted(canvas), edge = 18, cell = (side - edge) / n, stops = PURPLES[dark() ? "dark" : "light"];
    small.width = small.height = n;
    const pen = small.getContext("2d"), image = pen.createImageData(n, n);
    for (let i = 0; i < n * n; i++) {
      const x = 3 * Math.min(1, pattern[i]), k = Math.min(2, Math.floor(x)), future = i % n > Math.floor(i / n);
      image.data.set([...mixed(stops[k], stops[k + 1], x - k), future ? 0 : 255], 4 * i);
    }
    pen.putImageData(image, 0, 0);
    g.globalAlpha = off ? 0.3 : 1;
    g.imageSmoothingEnabled = false;
    g.drawImage(small, edge, edge, side - edge, side - edge);
    g.globalAlpha = 1;
    g.strokeStyle = color("--edge");
    g.beginPath();  // the border of what a query may attend to
    g.moveTo(edge, edge);
    for (let i = 0; i < n; i++) { g.lineTo(edge + (i + 1) * cell, edge + i * cell); g.lineTo(edge + (i + 1) * cell, edge + (i + 1) * cell); }
    g.lineTo(edge, side - 0.5); g.lineTo(edge, edge);
    g.stroke();
    const [first, second] = state.reading.spans.map(([from, to]) => [edge + (from + 1) * cell, edge + (to + 1) * cell]), [blue, orange] = [color("--key"), color("--query")];
    g.fillStyle = blue; g.fillRect(first[0], edge - 5, first[1] - first[0], 4);
    g.fillStyle = orange; g.fillRect(edge - 5, second[0], 4, second[1] - second[0]);
    g.font = "600 12px system-ui, sans-serif";
    g.fillStyle = blue; g.fillText("first mention", Math.min(first[0], side - 84), 9);
    g.save(); g.translate(9, Math.min(second[1], side)); g.rotate(-Math.PI / 2); g.fillStyle = orange; g.fillText("second mention", 0, 0); g.restore();
    g.setLineDash([2, 3]); g.strokeStyle = color("--ink");
    g.strokeRect(first[0], second[0], first[1] - first[0], second[1] - second[0]);
    g.setLineDash([]);
    if (state.pointed !== null) { g.strokeStyle = color("--query"); g.strokeRect(edge + 0.5, edge + state.pointed * cell, (state.pointed + 1) * cell, cell); }
    canvas.setAttribute("aria-label", `${said}: rows are queries, columns are keys${off ? "; switched off" : ""}`);
  }

  function drawCurve(frame = null) {
    const svg = at("curve"), w = svg.clientWidth, h = svg.clientHeight, across = (k) => 9 + (k / last) * (w - 18), down = (p) => h - 6 - p * (h - 14);
    const line = (which, off) => source.steps.map((_, k) => (known(k, off) ? [across(k), down(mean(state.reading.at(k, off).p, which))] : null)).filter(Boolean);
    const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    const [first, second] = [line(0, state.off), line(1, state.off)], ghost = state.off ? `<path d="${path(line(1, 0))}" fill="none" stroke="var(--query)" stroke-width="1.5" stroke-dasharray="2 4"/>` : "";
    const p = frame || now(), here = [mean(p.p, 0), mean(p.p, 1)], x = across(state.shown);
    svg.innerHTML = `${[0, 0.5, 1].map((y) => `<line x1="0" x2="${w}" y1="${down(y)}" y2="${down(y)}" stroke="var(--rule)"/>`).join("")}
      <line x1="${x}" x2="${x}" y1="0" y2="${h}" stroke="var(--share)" stroke-width="1.5"/>${ghost}
      <path d="${path(first)}" fill="none" stroke="var(--key)" stroke-width="2"/><path d="${path(second)}" fill="none" stroke="var(--query)" stroke-width="2.5" stroke-linejoin="round"/>
      ${second.map(([cx, cy]) => `<circle cx="${cx}" cy="${cy}" r="3" fill="var(--query)"/>`).join("")}
      <circle cx="${x}" cy="${down(here[1])}" r="6" fill="var(--query)" stroke="var(--paper)" stroke-width="2"/><circle cx="${x}" cy="${down(here[0])}" r="5" fill="var(--key)" stroke="var(--paper)" stroke-width="2"/>`;
    let [low, high] = [down(here[0]), down(here[1])];
    if (low - high < 18) { const middle = Math.min((low + high) / 2, h - 15); low = middle + 9; high = middle - 9; }
    at("ends").innerHTML = `<span style="top:${high}px;color:var(--query)">second ${percent(here[1])}</span><span style="top:${low}px;color:var(--key)">first ${percent(here[0])}</span>`;
  }

  // ---- the reader's hands ----
  let ticking = false;
  function go(target) {
    state.target = target;
    if (calm && !state.playing) state.shown = target;
    if (ticking) return;
    ticking = true;
    let before = performance.now();
    requestAnimationFrame(function tick(time) {
      const past = Math.max(0, Math.min(100, time - before)) / 1000, gap = state.target - state.shown, pace = state.playing ? 1.1 : Math.max(4, 6 * Math.abs(gap));  // steps of the slider a second
      before = time;
      state.shown = Math.abs(gap) <= pace * past ? state.target : state.shown + Math.sign(gap) * pace * past;
      draw();
      if (state.shown !== state.target) requestAnimationFrame(tick);
      else { ticking = false; if (state.playing) play(false); }
    });
    draw();
  }
  function play(on) {
    state.playing = on;
    at("play").textContent = on ? "❚❚" : "▶";
    at("play").setAttribute("aria-label", on ? "Pause" : "Play the training");
    if (on) { if (state.shown === last) state.shown = 0; go(last); } else go(Math.round(state.shown));
  }
  slider.oninput = () => { if (state.playing) { state.playing = false; at("play").textContent = "▶"; } go(+slider.value); };
  at("play").onclick = () => play(!state.playing);
  const point = (i) => { const inside = i !== null && i >= 0 && i < state.reading.tokens.length ? i : null; if (inside !== state.pointed) { state.pointed = inside; draw(); } };
  at("text").onpointerover = (event) => { if (event.target.dataset.i) point(+event.target.dataset.i); };
  at("text").onpointerleave = () => point(null);
  at("text").onblur = () => point(null);
  at("text").onkeydown = (event) => {
    const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key], n = state.reading.tokens.length;
    if (!way) return;
    event.preventDefault(); event.stopPropagation();
    point(state.pointed === null ? (way > 0 ? state.reading.spans[1][0] : n - 1) : Math.max(0, Math.min(n - 1, state.pointed + way)));
  };
  for (const id of ["previousMap", "inductionMap"]) {
    at(id).onpointermove = (event) => { const side = at(id).clientWidth; point(Math.floor(((event.offsetY - 18) / (side - 18)) * (state.reading.tokens.length + 1))); };
    at(id).onpointerleave = () => point(null);
  }
  new ResizeObserver(() => draw()).observe(root);
  theme.addEventListener("change", () => draw());
  if (source.read) {
    const field = root.querySelector("#drag-name"), asked = new URLSearchParams(location.hash.slice(1)).get("name");
    field.value = (asked || source.name).slice(0, 24);
    field.oninput = () => readName(field.value);
    readName(field.value);
  } else newText();
}

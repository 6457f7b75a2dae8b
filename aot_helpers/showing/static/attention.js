// Attention patterns: choose a head, then point at a cell of its pattern or at a token.
(root, data) => {
  const { tokens, heads, ramp } = data, n = tokens.length;
  const bytes = Uint8Array.from(atob(data.weights), letter => letter.charCodeAt(0));
  const weights = new Float32Array(bytes.buffer); // little-endian, as all of today's machines are
  const size = Math.max(8, Math.min(26, Math.floor(520 / n))), gap = size < 14 ? 0 : 1;
  let head = data.head, query = n - 1, key = 0;
  const weight = (q, k) => weights[(head * n + q) * n + k];
  const clip = (i, last) => Math.max(0, Math.min(last, i));
  const color = t => ramp[clip(Math.round(t * (ramp.length - 1)), ramp.length - 1)];
  const make = (tag, name, parent) => {
    const node = document.createElement(tag);
    node.className = name; parent.append(node); return node; };

  const view = document.createElement("div"); view.className = "aot-view";
  make("style", "", view).textContent = `
    .aot-view { font: 13px sans-serif; color: #111; background: #fff; }
    .aot-heads { display: flex; flex-wrap: wrap; gap: 6px; }
    .aot-map { display: block; margin: 6px 0; max-width: 100%; touch-action: pan-y; }
    .aot-token { padding: 1px 3px; margin: 1px; display: inline-block; white-space: pre; }
    .aot-token, .aot-out { font-family: monospace; }
    .aot-out { min-height: 3em; }`;
  const bar = make("div", "aot-heads", view), out = make("div", "aot-out", view);
  bar.setAttribute("role", "toolbar"); bar.setAttribute("aria-label", "head");
  out.setAttribute("aria-live", "polite");
  out.textContent =
    "Point at a cell or a token; arrow keys move, [ and ] change the head. Rows attend to columns.";
  const canvas = make("canvas", "aot-map", view), line = make("div", "aot-tokens", view);
  canvas.width = canvas.height = n * size; canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");

  function draw() {
    const g = canvas.getContext("2d");
    g.fillStyle = "#ffffff"; g.fillRect(0, 0, n * size, n * size);
    for (let q = 0; q < n; q++) for (let k = 0; k < n; k++) {
      g.fillStyle = color(weight(q, k));
      g.fillRect(k * size, q * size, size - gap, size - gap); }
    g.strokeStyle = "#d55e00"; g.lineWidth = 2;
    g.strokeRect(key * size, query * size, size - 1, size - 1);
    canvas.setAttribute("aria-label", `attention pattern of ${heads[head]}: rows attend to columns`);
    [...bar.children].forEach((b, i) => b.setAttribute("aria-pressed", i === head));
    [...line.children].forEach((t, k) => {
      const w = weight(query, k);
      t.style.background = k > query && w === 0 ? "transparent" : color(w);
      t.style.color = w > 0.4 ? "#fff" : "#111";
      t.style.outline = k === query ? "2px solid #d55e00" : "none"; });
  }
  function say(q, k) {
    query = q; key = k; draw();
    out.textContent = `${heads[head]}: query ${q} "${tokens[q]}" attends to key ${k} ` +
      `"${tokens[k]}" with weight ${weight(q, k).toFixed(3)}`;
  }
  function choose(h) { head = (h + heads.length) % heads.length; say(query, key); }
  heads.forEach((name, h) => {
    const b = make("button", "aot-head", bar);
    b.type = "button"; b.textContent = name; b.onclick = () => choose(h); });
  tokens.forEach((token, i) => {
    const t = make("span", "aot-token", line); t.textContent = token;
    t.onpointerenter = () => say(i, Math.min(key, i)); });
  canvas.onpointerdown = canvas.onpointermove = event => {
    const box = canvas.getBoundingClientRect();
    const k = Math.floor((event.clientX - box.left) / box.width * n);
    const q = Math.floor((event.clientY - box.top) / box.height * n);
    if (q >= 0 && k >= 0 && q < n && k < n) say(q, k); };
  canvas.onkeydown = event => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0],
                   ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (step) say(clip(query + step[0], n - 1), clip(key + step[1], n - 1));
    else if (event.key === "[") choose(head - 1);
    else if (event.key === "]") choose(head + 1);
    else return;
    event.preventDefault(); event.stopPropagation(); };
  root.replaceChildren(view); draw();
}

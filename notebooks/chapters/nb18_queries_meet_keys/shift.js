// Queries and keys of a head on one map, and a slider that moves the keys; the attention below stays.
(root, W) => {
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag); e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)), ORANGE = [213, 94, 0], BLUE = [0, 114, 178], PURPLE = "#7B3F99";
  const maps = W.maps.map(bytes), attention = bytes(W.attention), n = W.pos.length, length = W.tokens.length, last = maps.length - 1, latest = Math.max(...W.pos);
  let query = W.query, shown = 0, target = 0, ticking = false;
  root.textContent = "";
  root.style.cssText = "color:#222;background:#fff;font:15px system-ui,sans-serif;padding:8px;max-width:560px;box-sizing:border-box";
  const bar = make("label", root, "display:flex;gap:12px;align-items:center"), slider = make("input", bar, "flex:1;min-width:0;accent-color:" + PURPLE), said = make("output", bar, "min-width:9.5em;font-variant-numeric:tabular-nums;font-weight:600");
  bar.prepend("keys moved by");
  Object.assign(slider, { type: "range", min: 0, max: last, step: 1, value: 0 });
  const canvas = make("canvas", root, "display:block;width:100%;aspect-ratio:1;border:1px solid #ddd;margin:8px 0;cursor:crosshair"), note = make("p", root, "margin:0 0 10px;min-height:4.4em;line-height:1.45");
  const bars = make("div", root, "display:flex;align-items:flex-end;gap:1px;height:64px;border-bottom:1px solid #999"), under = make("p", root, "margin:4px 0 0;color:#666;font-size:13px");
  note.setAttribute("aria-live", "polite"); canvas.tabIndex = 0; canvas.setAttribute("role", "img"); bars.setAttribute("role", "img");
  const columns = W.tokens.map(token => { const e = make("i", bars, "flex:1;background:" + PURPLE); e.title = token; return e; });
  const pen = canvas.getContext("2d"), size = 1040;
  canvas.width = canvas.height = size;
  const spot = i => [0, 1].map(d => { const k = Math.min(Math.floor(shown), last - 1), v = maps[k][2 * i + d] + (shown - k) * (maps[k + 1][2 * i + d] - maps[k][2 * i + d]); return 20 + (d ? 255 - v : v) / 255 * (size - 40); });
  const tint = (color, pos, s = 0.25 + 0.75 * pos / latest) => `rgb(${color.map(v => Math.round(255 - s * (255 - v)))})`;
  const quoted = i => `“${W.tokens[i]}” (${i})`;
  function draw() {
    pen.clearRect(0, 0, size, size);
    for (let i = 0; i < 2 * n; i++) {
      const [x, y] = spot(i), key = i >= n; pen.globalAlpha = i % n < length ? 1 : 0.4; pen.fillStyle = tint(key ? BLUE : ORANGE, W.pos[i % n]); pen.beginPath();
      if (key) pen.rect(x - 6, y - 6, 12, 12); else pen.arc(x, y, 6.5, 0, 7);
      pen.fill(); }
    pen.globalAlpha = 1;
    const from = spot(query), row = Array.from(attention.subarray(query * length, (query + 1) * length)), keys = row.map((_, i) => spot(n + i)), apart = keys.map(([x, y]) => Math.hypot(x - from[0], y - from[1]));
    const most = row.indexOf(Math.max(...row)), near = apart.indexOf(Math.min(...apart));
    pen.setLineDash([7, 6]); pen.strokeStyle = "#888"; pen.lineWidth = 2;
    for (let i = 0; i < length; i++) { const [x, y] = spot(i), far = keys.map(([u, v]) => Math.hypot(u - x, v - y)); pen.beginPath(); pen.moveTo(x, y); pen.lineTo(...keys[far.indexOf(Math.min(...far))]); pen.stroke(); }
    for (const [i, style, width, dash] of [[most, PURPLE, 6, []], [near, "#222", 4, [9, 9]]]) { pen.setLineDash(dash); pen.strokeStyle = style; pen.lineWidth = width; pen.beginPath(); pen.moveTo(...from); pen.lineTo(...keys[i]); pen.stroke(); }
    pen.setLineDash([]); pen.strokeStyle = "#111"; pen.lineWidth = 4; pen.beginPath(); pen.arc(...from, 13, 0, 7); pen.stroke();
    const [x, y] = keys[0]; pen.fillStyle = tint(BLUE, latest); pen.fillRect(x - 11, y - 11, 22, 22); pen.strokeRect(x - 11, y - 11, 22, 22);
    const k = Math.round(shown);
    said.textContent = `${Math.round(100 * W.shares[k])}% of the shift`; slider.setAttribute("aria-valuetext", said.textContent);
    note.innerHTML = ""; note.append("The query of "); make("b", note, "color:#c85200", quoted(query)); note.append(" attends most to "); make("b", note, "color:" + PURPLE, quoted(most)); note.append("; on this map the nearest key of its text is "); make("b", note, "color:#0072b2", quoted(near));
    note.append(".");
    row.forEach((share, i) => { columns[i].style.height = `${share / 255 * 100}%`; columns[i].style.background = i === most ? PURPLE : "#C9A9DB"; });
    under.textContent = `Attention of ${quoted(query)} to the ${length} tokens of its text: the same in every frame. The framed square is the key of ${W.tokens[0]}. Point at a round dot, or use the arrow keys, for another query.`;
    canvas.setAttribute("aria-label", `Map of queries and keys of ${W.head}. ${note.textContent}`); bars.setAttribute("aria-label", under.textContent); }
  function go(time) {
    const gap = target - shown, step = Math.max(0.06, Math.abs(gap) / 8);
    shown = Math.abs(gap) <= step ? target : shown + Math.sign(gap) * step; draw();
    if (shown !== target) requestAnimationFrame(go); else ticking = false; }
  slider.oninput = () => { target = +slider.value; if (!ticking) { ticking = true; requestAnimationFrame(go); } };
  canvas.onpointermove = event => { const box = canvas.getBoundingClientRect(), f = size / box.width, at = [(event.clientX - box.left) * f, (event.clientY - box.top) * f]; let least = 900, found = -1;
    for (let i = 0; i < length; i++) { const [x, y] = spot(i), d = (x - at[0]) ** 2 + (y - at[1]) ** 2; if (d < least) { least = d; found = i; } }
    if (found >= 0 && found !== query) { query = found; draw(); } };
  canvas.onkeydown = event => { const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]; if (!step) return; query = (query + step + length) % length; event.preventDefault(); event.stopPropagation(); draw(); };
  draw();
}

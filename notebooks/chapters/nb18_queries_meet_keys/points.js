// Queries and keys of a head as points of one map: point at one to read its text and its keys.
(root, W) => {
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag);
    e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const ORANGE = [213, 94, 0], BLUE = [0, 114, 178], PURPLE = "#7B3F99", size = 540;
  const where = [], start = [];  // [text, position] of each point; first point of each text
  W.tokens.forEach((text, t) => { start.push(where.length); text.forEach((_, p) => where.push([t, p])); });
  const n = where.length, longest = Math.max(...W.tokens.map(text => text.length));
  let at, top, hit = W.point, kind = 0;
  root.textContent = "";
  root.style.cssText = "color:#222;background:#fff;font:14px sans-serif;padding:6px;max-width:960px";
  const bar = make("div", root, "margin-bottom:6px");
  const choose = (label, names, first, then) => { make("label", bar, "margin:0 6px 0 0", label);
    const e = make("select", bar, "margin-right:18px"); e.setAttribute("aria-label", label);
    names.forEach(name => { make("option", e, "", name).value = name; }); e.value = first; e.onchange = then; return e; };
  const head = choose("head", Object.keys(W.heads), W.head, load);
  const color = choose("color by", ["query or key", "position", "kind of token"], "query or key", show);
  make("span", bar, "color:#666", "point at a dot, or use the arrow keys");
  const row = make("div", root, "display:flex;flex-wrap:wrap;gap:14px");
  const canvas = make("canvas", row, "border:1px solid #ddd;cursor:crosshair;max-width:100%");
  canvas.width = canvas.height = 2 * size; canvas.style.width = size + "px"; canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  const side = make("div", row, "flex:1;min-width:260px;max-width:380px;line-height:1.5"), pen = canvas.getContext("2d");
  side.setAttribute("aria-live", "polite");
  const spot = i => [24 + at[2 * i] * (2 * size - 48) / 255, 2 * size - 24 - at[2 * i + 1] * (2 * size - 48) / 255];
  const paint = i => { const [t, p] = where[i % n], base = i < n ? ORANGE : BLUE;
    if (color.value == "kind of token") return W.colors[W.types[t][p]];
    const s = color.value == "position" ? 0.3 + 0.7 * p / (longest - 1) : 0.8;
    return `rgb(${base.map(v => Math.round(255 - s * (255 - v)))})`; };
  function dot(i, r) { const [x, y] = spot(i); pen.beginPath();
    if (i < n) pen.arc(x, y, r, 0, 7); else pen.rect(x - r, y - r, 2 * r, 2 * r); }
  function allowed(a, b) { return where[a][0] == where[b][0] && (!W.causal || where[b][1] <= where[a][1]); }
  function nearest(i) { let best = -1, least = Infinity;
    for (let k = 0; k < n; k++) if (allowed(i, k)) { const d = (at[2 * i] - at[2 * (n + k)]) ** 2 + (at[2 * i + 1] - at[2 * (n + k) + 1]) ** 2;
      if (d < least) { least = d; best = k; } } return best; }
  function line(i, k, style, width, dash) { pen.beginPath(); pen.setLineDash(dash); pen.strokeStyle = style; pen.lineWidth = width;
    pen.moveTo(...spot(i)); pen.lineTo(...spot(n + k)); pen.stroke(); pen.setLineDash([]); }
  function said(k) { return W.tokens[where[k][0]][where[k][1]].trim() + " (" + where[k][1] + ")"; }
  function show() {
    pen.clearRect(0, 0, 2 * size, 2 * size);
    const [text, pos] = where[hit];
    for (let i = 0; i < 2 * n; i++) { pen.globalAlpha = where[i % n][0] == text ? 1 : 0.45; dot(i, 5); pen.fillStyle = paint(i); pen.fill(); }
    pen.globalAlpha = 1;
    const keys = kind == 0 ? [0, 1, 2].map(j => start[text] + top[3 * hit + j]) : [], near = nearest(hit);
    if (kind == 0) { keys.forEach((k, j) => line(hit, k, PURPLE, [5, 3, 1.5][j], [])); line(hit, near, "#222", 4, [8, 8]); }
    dot(kind * n + hit, 11); pen.fillStyle = paint(kind * n + hit); pen.fill(); pen.strokeStyle = "#111"; pen.lineWidth = 3; pen.stroke();
    side.textContent = "";
    make("div", side, "font-weight:bold;color:" + (kind ? "#0072B2" : "#D55E00"), (kind ? "key" : "query") + " of " + W.tokens[text][pos].trim() + ", position " + pos);
    const words = make("div", side, "margin:6px 0;font-family:monospace;font-size:13px");
    W.tokens[text].forEach((token, p) => { const liked = keys.indexOf(start[text] + p);
      make("span", words, p == pos ? "background:#222;color:#fff" : liked == 0 ? "background:#C9A9DB" : liked > 0 ? "background:#EFE3F5" : "", token.trim() || "·");
      words.append(" "); });
    if (kind == 0) { make("div", side, "color:" + PURPLE, "likes most: " + [...new Set(keys)].map(said).join(", "));
      make("div", side, "color:#555", "nearest key of its text on the map: " + said(near)); }
    make("div", side, "margin-top:10px;color:#555", color.value == "kind of token" ? "round: queries; square: keys" : "round: queries, orange; square: keys, blue" + (color.value == "position" ? "; darker: later" : ""));
    if (color.value == "kind of token") W.kinds.forEach((name, j) => make("div", side, "color:" + W.colors[j], "■ " + name));
    canvas.setAttribute("aria-label", side.innerText || side.textContent); }
  function load() { at = bytes(W.heads[head.value][0]); top = bytes(W.heads[head.value][1]); show(); }
  canvas.onmousemove = event => { const box = canvas.getBoundingClientRect(), f = 2 * size / box.width;
    const x = (event.clientX - box.left) * f, y = (event.clientY - box.top) * f; let least = 900, found = -1;
    for (let i = 0; i < 2 * n; i++) { const [a, b] = spot(i), d = (a - x) ** 2 + (b - y) ** 2; if (d < least) { least = d; found = i; } }
    if (found >= 0 && (found % n != hit || (found >= n) != kind)) { hit = found % n; kind = found >= n ? 1 : 0; show(); } };
  canvas.onkeydown = event => { const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) hit = (hit + step + n) % n; else if (event.key == "ArrowUp" || event.key == "ArrowDown") kind = 1 - kind; else return;
    event.preventDefault(); show(); };
  load();
}

// The information flow of one prompt: point at boxes and lines, prune, choose the target, unfold a head.
(root, W) => {
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag);
    e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  const draw = (tag, parent, has) => { const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in has) e.setAttribute(name, has[name]); parent.append(e); return e; };
  const COL = 168, ROW = 50, WIDE = 130, HIGH = 40, N = W.nodes, opened = new Set(), closed = new Set();
  const stage = n => n[0] in W.steps ? [n[1], W.steps[n[0]]] : [-1, 0];
  const later = (a, b) => stage(b)[0] - stage(a)[0] || stage(b)[1] - stage(a)[1];
  const order = N.map((_, i) => i).sort((a, b) => later(N[a], N[b])), into = N.map(() => []);
  W.edges.forEach(e => into[e[1]].push(e));
  const word = t => t.replace(/ /g, "·").replace(/\n/g, "⏎"), cut = (t, n) => t.length > n ? t.slice(0, n - 1) + "…" : t;
  const reads = n => n[5].length > 0;
  const bare = n => n[0] == "token" ? word(W.tokens[n[3]]) : n[0] == "residual" ? "stream L" + n[1] : n[0] == "mlp" ? `L${n[1]} MLP`
    : n[0] == "neuron" ? `L${n[1]} n${n[2]}` : ["position", "bias", "stream"].includes(n[0]) ? n[0] : `L${n[1]}H${n[2]}` + (n[0] == "head" ? "" : " " + n[0]);
  const title = n => n[0] == "stream" ? "stream" : cut(bare(n), 14 - ("" + n[3]).length) + " @" + n[3];
  const place = n => `${n[0] == "neuron" ? `neuron ${n[2]} of the MLP in L${n[1]}` : bare(n)}, at ${n[3]} “${word(W.tokens[n[3]])}”`;
  root.textContent = "";
  root.style.cssText = "color:#222;background:#fff;font:14px sans-serif;padding:6px";
  const bar = make("div", root, "display:flex;flex-wrap:wrap;gap:6px 18px;align-items:center;margin-bottom:4px");
  const control = (label, tag) => { const box = make("label", bar, "", label + " "), e = make(tag, box); e.setAttribute("aria-label", label); return e; };
  const choose = (label, names, first) => { const e = control(label, "select");
    names.forEach((name, i) => { make("option", e, "", name).value = i; }); e.value = first; e.onchange = show; return e; };
  const slide = (label, min, max, step, first) => { const e = control(label, "input");
    e.type = "range"; e.min = min; e.max = max; e.step = step; e.value = first; e.style.width = "130px"; e.oninput = show; return e; };
  const MEASURES = ["coefficient", "norm", "share"];
  const target = choose("target", W.targets.map(word), W.target);
  const by = choose("edges by", ["attention and activation", "norm", "share of the logit"], MEASURES.indexOf(W.by));
  const least = slide("drop weaker than", W.unfolded[1], 1, 0.05, W.least), most = slide("edges into a box", 1, W.unfolded[0], 1, W.most);
  const keys = control("why heads look", "input"); keys.type = "checkbox"; keys.checked = true;
  keys.onchange = () => { opened.clear(); closed.clear(); show(); };
  const count = make("span", bar, "color:#666"), hold = make("div", root, "overflow:auto;max-height:760px;border:1px solid #ddd");
  const said = make("div", root, "min-height:5.2em;line-height:1.35;padding:4px 2px");
  said.setAttribute("aria-live", "polite");
  const legend = make("div", root, "color:#555;font-size:12px");
  function strength(e) { const to = N[e[1]][0], t = target.value, m = by.value;
    if (to == "key" || to == "query" || e[2] != "part") return Math.abs(e[6]);
    if (m == 2) return Math.abs(e[5][t]) + Math.abs(e[6]);
    if (m == 0 && (to == "head" || to == "mlp")) return N[e[0]][0] == "bias" ? 0 : Math.abs(e[3]);
    return e[4]; }
  function prune() { const weight = { 0: 1 }, kept = [];
    for (const at of order) { if (!(at in weight) || !into[at].length) continue;
      const ranked = into[at].filter(e => e[2] == "part").map(e => [strength(e), e]).sort((a, b) => b[0] - a[0]).slice(0, +most.value);
      const whyBox = N[at][0] == "key" || N[at][0] == "query", top = ranked.length && !whyBox ? Math.max(ranked[0][0], 1e-12) : 1, here = {}, passed = [];
      for (const [s, e] of ranked) { const p = weight[at] * s / top;
        if (p >= +least.value - 1e-9) { passed.push([e, p, s / Math.max(ranked[0][0], 1e-12)]); here[N[e[0]][3]] = p; } }
      const why = closed.has(at) ? false : opened.has(at) || keys.checked;
      if (why) for (const e of into[at]) if (e[2] != "part") { const n = N[e[0]], k = e[2] == "key" ? n[3] : n[4];
        if (k in here) passed.push([e, here[k], 0]); }
      for (const [e, p, s] of passed) { kept.push([e, s]); weight[e[0]] = Math.max(weight[e[0]] || 0, p); } }
    return [Object.keys(weight).map(Number), kept]; }
  function rank(n) { const r = n[6][target.value];
    return !reads(n) ? 2 : r == 0 ? 0 : r < 10 ? 1 : 2; }
  function look([e, strong]) { const to = N[e[1]][0];
    if (e[2] != "part") return [W.borders[e[2]], "6 4", 1.5];
    const dash = e[5][target.value] < 0 ? "2 3" : "", wide = 1 + 5.5 * strong;
    if (to == "head") return [W.borders.head, dash, wide];
    if (to == "mlp") return [W.mlp, dash, wide];
    return [W.lines.sum[0], dash, wide]; }
  const kindOf = e => e[2] != "part" ? e[2] : e[5][target.value] < 0 ? "lowers the target"
    : ({ head: "attention", mlp: "neuron" })[N[e[1]][0]] || "sum";
  const num = x => Math.abs(x) >= 1000 || (x && Math.abs(x) < 0.001) ? x.toExponential(1) : +x.toPrecision(3);
  function tell(lines) { said.textContent = ""; lines.forEach((l, i) => make("div", said, i ? "" : "font-weight:bold", l)); }
  function tellNode(i) { const n = N[i], t = target.value, lines = [place(n)];
    if (reads(n)) lines.push("the lens reads: " + n[5].map(word).join("  "),
      `${word(W.targets[t])}: rank ${n[6][t]} of ${W.d_vocab}, probability ${num(n[7][t])}; entropy ${Math.round(100 * n[8])} % of the most`);
    else lines.push(n[0] == "position" && n[4] >= 0 ? "the score that a distance gets by itself" : "the lens reads no token before any other");
    if (n[0] == "head") lines.push("click to unfold or fold why it looks there");
    tell(lines); }
  function tellEdge(e) { const a = N[e[0]], b = N[e[1]], t = target.value, lines = [place(a) + "  →  " + place(b)];
    if (e[2] != "part") lines.push(`attention score ${num(e[3])}`);
    else { lines.push((b[0] == "head" ? `attention ${num(e[3])}, ` : b[0] == "mlp" && a[0] != "bias" ? `activation ${num(e[3])}, ` : "added, ") + `norm ${num(e[4])}`);
      lines.push(b[0] == "key" || b[0] == "query" ? `${Math.round(100 * e[6])} % of the parts of the attention score`
        : `${num(100 * e[5][t])} % of the logit of ${word(W.targets[t])} (${num(W.logits[t])} ${W.from})`); }
    tell(lines); }
  function layout(seen, kept) {  // as figures.layout: long lines have lanes of their own
    const depth = {}, out = {}, at = {}, routes = kept.map(() => []);
    kept.forEach(([e]) => (out[e[0]] = out[e[0]] || []).push(e[1]));
    for (const i of order) if (seen.includes(i)) depth[i] = Math.max(0, ...(out[i] || []).map(j => depth[j] + 1));
    const last = Math.max(...seen.map(i => depth[i])); let rows = {}, top = 0, end = 0;
    for (let d = 0; d <= last; d++) {
      const leads = {};
      seen.forEach(i => { if (depth[i] == d) leads[i] = [[], i]; });
      kept.forEach(([e], n) => { const [a, b] = e; if (depth[b] >= d || depth[a] < d) return;
        const to = rows[depth[b] == d - 1 ? b : "line" + n], key = depth[a] == d ? a : "line" + n;
        (leads[key] = leads[key] || [[], a])[0].push(to); });
      const mean = x => x.length ? x.reduce((s, v) => s + v, 0) / x.length : 0;
      const keys = Object.keys(leads).sort((p, q) => { const [x, i] = leads[p], [y, j] = leads[q], m = N[i], n = N[j];
        return mean(x) - mean(y) || m[3] - n[3] || m[1] - n[1] || m[2] - n[2] || (m[0] < n[0] ? -1 : m[0] > n[0] ? 1 : 0); });
      const size = key => key.startsWith("line") ? W.lane : 1;
      let y = -keys.reduce((s, key) => s + size(key), 0) / 2; rows = {}; top = Math.min(top, y); end = Math.max(end, -y);
      for (const key of keys) { rows[key] = y + size(key) / 2; y += size(key);
        if (key.startsWith("line")) routes[+key.slice(4)].unshift([last - d, rows[key]]); else at[key] = [last - d, rows[key]]; } }
    const place = ([x, y]) => [5 + COL * (x + 0.5), ROW * (y - top) + 2];
    for (const i in at) at[i] = place(at[i]);
    return [at, routes.map(r => r.map(place)), COL * (last + 1) + 10, ROW * (end - top) + 4]; }
  function path(way) { let d = "", x0 = way[0][0] + WIDE / 2, y0 = way[0][1]; d = `M${x0} ${y0}`;
    way.slice(1).forEach(([x, y], i) => { const to = x - WIDE / 2, c = (x0 + to) / 2; d += `C${c} ${y0} ${c} ${y} ${to} ${y}`;
      if (i < way.length - 2) d += `L${x + WIDE / 2} ${y}`; x0 = x + WIDE / 2; y0 = y; });
    return d; }
  function show() { const [seen, kept] = prune(), [at, routes, width, height] = layout(seen, kept);
    hold.textContent = "";
    const svg = draw("svg", hold, { width, height, role: "img", "aria-label": root.dataset.said || "information-flow graph" });
    svg.style.display = "block";
    kept.forEach((k, n) => { const e = k[0], [ink, dash, wide] = look(k), d = path([at[e[0]], ...routes[n], at[e[1]]]);
      const line = draw("path", svg, { d, fill: "none", stroke: ink, "stroke-width": wide, "stroke-dasharray": dash });
      const wider = draw("path", svg, { d, fill: "none", stroke: "transparent", "stroke-width": Math.max(wide, 9), class: "edge" });
      wider.onmouseenter = () => { line.setAttribute("stroke", "#111"); tellEdge(e); }; wider.onmouseleave = () => line.setAttribute("stroke", ink); });
    seen.forEach(i => { const n = N[i], [x, y] = at[i], g = draw("g", svg, { class: "node", tabindex: 0, role: "button", "aria-label": place(n), "data-i": i });
      if (n[0] == "head") g.style.cursor = "pointer";
      const box = draw("rect", g, { x: x - WIDE / 2, y: y - HIGH / 2, width: WIDE, height: HIGH, rx: 7, fill: W.ranks[rank(n)], stroke: W.borders[n[0]], "stroke-width": 2 });
      const text = (s, dy, fill, weight) => { draw("text", g, { x, y: y + dy, "text-anchor": "middle", "font-size": 12, "font-family": "sans-serif", fill, "font-weight": weight }).textContent = cut(s, 17); };
      const told = rank(n) < 2;  // elsewhere the reading says nothing of the target
      text(title(n), told ? -4 : 4, W.borders[n[0]], "bold"); if (told) text("→ " + word(n[5][0]), 13, "#222", "normal");
      g.onmouseenter = g.onfocus = () => { box.setAttribute("stroke-width", 4); tellNode(i); };
      g.onmouseleave = g.onblur = () => box.setAttribute("stroke-width", 2);
      const toggle = () => { if (n[0] != "head") return; const on = !closed.has(i) && (opened.has(i) || keys.checked);
        opened.delete(i); closed.delete(i); (on ? closed : opened).add(i); show(); hold.querySelector(`[data-i="${i}"]`).focus({ preventScroll: true }); };
      g.onclick = toggle; g.onkeydown = event => { if (event.key == "Enter" || event.key == " ") { event.preventDefault(); toggle(); } }; });
    count.textContent = `${seen.length} boxes, ${kept.length} lines: ${least.value} of the strongest into a box or more, ${most.value} at most`;
    legend.textContent = "";
    make("span", legend, "", `rank of ${word(W.targets[target.value])} in a box: `);
    W.ranks.forEach((c, i) => { make("span", legend, `display:inline-block;width:13px;height:11px;margin:0 4px 0 8px;border:1px solid #999;background:${c}`); make("span", legend, "", W.rankNames[i]); });
    const second = make("div", legend), used = new Set(kept.map(([e]) => kindOf(e)));
    for (const name in W.lines) if (used.has(name)) { const [ink, dash] = W.lines[name];
      const line = draw("svg", second, { width: 30, height: 8, style: "margin:0 5px 1px 0" });
      draw("path", line, { d: "M0 4H30", stroke: ink, "stroke-width": 3, "stroke-dasharray": dash.split(" ").map(x => 2 * x).join(" ") });
      make("span", second, "margin-right:14px", name); }
    make("span", second, "", "(wider: stronger)"); }
  show();
  tell(["Point at a box or a line; click a head to unfold why it looks there."]);
}

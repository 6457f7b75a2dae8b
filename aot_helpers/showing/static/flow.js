// The information flow of one prompt: point at boxes and lines, prune, choose the target, unfold a head.
(root, W) => {
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag);
    e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  const draw = (tag, parent, has) => { const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in has) e.setAttribute(name, has[name]); parent.append(e); return e; };
  const COL = 152, ROW = 50, WIDE = 124, HIGH = 40, N = W.nodes, opened = new Set(), closed = new Set();
  const stage = n => n[0] in W.steps ? [n[1], W.steps[n[0]]] : [-1, 0];
  const later = (a, b) => stage(b)[0] - stage(a)[0] || stage(b)[1] - stage(a)[1];
  const order = N.map((_, i) => i).sort((a, b) => later(N[a], N[b])), into = N.map(() => []);
  W.edges.forEach(e => into[e[1]].push(e));
  const word = t => t.replace(/ /g, "·").replace(/\n/g, "⏎"), cut = (t, n) => t.length > n ? t.slice(0, n - 1) + "…" : t;
  const reads = n => n[5].length > 0;
  const bare = n => n[0] == "token" ? word(W.tokens[n[3]]) : n[0] == "residual" ? "stream L" + n[1] : n[0] == "mlp" ? `L${n[1]} MLP`
    : n[0] == "neuron" ? `L${n[1]} n${n[2]}` : ["position", "bias", "stream"].includes(n[0]) ? n[0] : `L${n[1]}H${n[2]}` + (n[0] == "head" ? "" : " " + n[0]);
  const title = n => n[0] == "stream" ? "stream" : cut(bare(n), 13 - ("" + n[3]).length) + " @" + n[3];
  const place = n => `${bare(n)}, at ${n[3]} “${word(W.tokens[n[3]])}”`;
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
  function color(n) { const r = n[6][target.value];
    return W.ranks[!reads(n) ? 3 : r == 0 ? 0 : r >= 0.9 * W.d_vocab ? 4 : r < 10 ? 1 : r < 0.01 * W.d_vocab ? 2 : 3]; }
  function look([e, strong]) { const to = N[e[1]][0];
    if (e[2] != "part") return [W.borders[e[2]], "6 4", 1.5];
    const dash = e[5][target.value] < 0 ? "2 3" : "", wide = 1 + 5.5 * strong;
    if (to == "head") return [W.borders.head, dash, wide];
    if (to == "mlp") return [W.mlp, dash, wide];
    const g = Math.round(90 + 110 * N[e[0]][8]); return [`rgb(${g},${g},${g})`, dash, wide]; }
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
  function show() { const [seen, kept] = prune(), stages = {}, columns = [], at = {};
    seen.forEach(i => { const key = stage(N[i]).join(); (stages[key] = stages[key] || []).push(i); });
    Object.keys(stages).sort((a, b) => { const [p, q] = a.split(","), [r, s] = b.split(","); return p - r || q - s; }).forEach(key => {
      const here = columns[columns.length - 1];  // stages that no line joins share a column
      if (here && !kept.some(([e]) => here.includes(e[0]) && stages[key].includes(e[1]))) here.push(...stages[key]); else columns.push(stages[key]); });
    const high = Math.max(...columns.map(c => c.length)) * ROW;
    columns.forEach((column, x) => column.sort((a, b) => N[a][3] - N[b][3] || N[a][1] - N[b][1] || N[a][2] - N[b][2] || (N[a][0] < N[b][0] ? -1 : 1))
      .forEach((i, y, all) => { at[i] = [5 + COL * (x + 0.5), high / 2 + ROW * (y - (all.length - 1) / 2)]; }));
    hold.textContent = "";
    const size = { width: COL * columns.length + 10, height: high + 4 }, svg = draw("svg", hold, { ...size, role: "img", "aria-label": root.dataset.said || "information-flow graph" });
    svg.style.display = "block";
    kept.forEach(k => { const e = k[0], [x0, y0] = at[e[0]], [x1, y1] = at[e[1]], [ink, dash, wide] = look(k);
      const a = x0 + WIDE / 2, b = x1 - WIDE / 2, c = Math.max((b - a) / 2, 20), d = `M${a} ${y0}C${a + c} ${y0} ${b - c} ${y1} ${b} ${y1}`;
      const line = draw("path", svg, { d, fill: "none", stroke: ink, "stroke-width": wide, "stroke-dasharray": dash });
      const wider = draw("path", svg, { d, fill: "none", stroke: "transparent", "stroke-width": Math.max(wide, 9), class: "edge" });
      wider.onmouseenter = () => { line.setAttribute("stroke", "#111"); tellEdge(e); }; wider.onmouseleave = () => line.setAttribute("stroke", ink); });
    seen.forEach(i => { const n = N[i], [x, y] = at[i], g = draw("g", svg, { class: "node", tabindex: 0, role: "button", "aria-label": place(n), "data-i": i });
      if (n[0] == "head") g.style.cursor = "pointer";
      const box = draw("rect", g, { x: x - WIDE / 2, y: y - HIGH / 2, width: WIDE, height: HIGH, rx: 7, fill: color(n), stroke: W.borders[n[0]], "stroke-width": 2 });
      const text = (s, dy, fill, weight) => { draw("text", g, { x, y: y + dy, "text-anchor": "middle", "font-size": 12, "font-family": "sans-serif", fill, "font-weight": weight }).textContent = cut(s, 16); };
      text(title(n), reads(n) ? -4 : 4, W.borders[n[0]], "bold"); if (reads(n)) text("→ " + word(n[5][0]), 13, "#222", "normal");
      g.onmouseenter = g.onfocus = () => { box.setAttribute("stroke-width", 4); tellNode(i); };
      g.onmouseleave = g.onblur = () => box.setAttribute("stroke-width", 2);
      const toggle = () => { if (n[0] != "head") return; const on = !closed.has(i) && (opened.has(i) || keys.checked);
        opened.delete(i); closed.delete(i); (on ? closed : opened).add(i); show(); hold.querySelector(`[data-i="${i}"]`).focus({ preventScroll: true }); };
      g.onclick = toggle; g.onkeydown = event => { if (event.key == "Enter" || event.key == " ") { event.preventDefault(); toggle(); } }; });
    count.textContent = `${seen.length} boxes, ${kept.length} lines: ${least.value} of the strongest into a box or more, ${most.value} at most`;
    legend.textContent = "";
    make("span", legend, "", `rank of ${word(W.targets[target.value])}: `);
    W.ranks.forEach((c, i) => { make("span", legend, `display:inline-block;width:13px;height:11px;margin:0 4px 0 8px;border:1px solid #999;background:${c}`); make("span", legend, "", W.rankNames[i]); });
    make("span", legend, "margin-left:14px", "· purple: attention, dashed: why it looks there, gray: sums, dotted: takes away from the target"); }
  show();
  tell(["Point at a box or a line; click a head to unfold why it looks there."]);
}

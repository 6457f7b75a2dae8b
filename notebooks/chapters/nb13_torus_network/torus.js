// A torus network, alive in the page: its numbers, and a circle, maps, a torus and a globe that follow each other.
(root, W) => {
  const N = 220, TURN = 2 * Math.PI, names = "ABCDE", heads = W.W_Q.length, radius = Math.sqrt(3), RED = "#B22222";
  const u = [1, -1, 0].map(x => x / Math.SQRT2), v = [1, 1, -2].map(x => x / Math.sqrt(6));
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const times = (x, M) => M[0].map((_, j) => x.reduce((sum, xi, i) => sum + xi * M[i][j], 0));
  const at = (angle, place) => [0, 1, 2].map(i =>
    radius * (Math.cos(angle) * u[i] + Math.sin(angle) * v[i]) + W.W_pos[place][i]);
  const product = (A, B) => A.map(row => times(row, B));
  const flip = A => A[0].map((_, j) => A.map(row => row[j]));
  const QK = W.W_Q.map((Q, h) => product(Q, flip(W.W_K[h])).map(r => r.map(x => x / Math.sqrt(Q[0].length))));
  const OV = W.W_V.map((V, h) => product(V, W.W_O[h]));
  const columns = flip(W.W_U), theta = [...W.theta];
  const outputs = OV.map(() => 1), scores = OV.map(() => 1);  // factors of what a head writes, and of its scores
  // What a pair of angles puts into the stream, and the words that it stands for.
  const first = angle => { const x = at(angle, 0); return { x, out: OV.map(M => times(x, M)) }; };
  const second = angle => { const x = at(angle, 1), ask = QK.map(M => times(x, M));
    return { x, ask, own: ask.map(q => dot(q, x)), out: OV.map(M => times(x, M)) }; };
  const share = (a, b, h) => 1 / (1 + Math.exp(scores[h] * (b.own[h] - dot(b.ask[h], a.x))));
  function stream(a, b, shares) {
    const s = [...b.x];
    for (let h = 0; h < heads; h++) for (let i = 0; i < 3; i++)
      s[i] += outputs[h] * (shares[h] * a.out[h][i] + (1 - shares[h]) * b.out[h][i]);
    return s; }
  function chances(s) {
    const logits = columns.map(c => dot(s, c)), top = Math.max(...logits);
    const powers = logits.map(l => Math.exp(l - top)), sum = powers.reduce((a, b) => a + b);
    return powers.map(p => p / sum); }
  const best = s => columns.reduce((top, c, k) => dot(s, c) > dot(s, columns[top]) ? k : top, 0);
  function answer(angle1, angle2) {
    const a = first(angle1), b = second(angle2), shares = OV.map((_, h) => share(a, b, h)), s = stream(a, b, shares);
    return { shares, stream: s, chances: chances(s), best: best(s) }; }
  let pair = [1, 1], free = null;  // what is asked: two words, or any two angles
  const asked = () => free || pair.map(k => theta[k]), network = { answer, asked, outputs, scores, theta, trained: W.theta };
  if (!root) return network;  // only the numbers, for tests
  root.network = network;
  // The page: the map and the torus above; the circle, where each head attends and the globe below.
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag);
    e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  root.textContent = ""; root.style.cssText = "color:#222;background:#fff;font:13px sans-serif;padding:6px;max-width:790px";
  const said = make("div", root, "font-weight:bold;font-size:14px;margin-bottom:6px"); said.setAttribute("aria-live", "polite");
  const row = () => make("div", root, "display:flex;gap:14px;flex-wrap:wrap;align-items:flex-start;margin-bottom:8px");
  const above = row(), below = row();
  function canvas(parent, size, what, title, cursor = "grab") {
    const box = make("div", parent); if (title) make("div", box, "margin-bottom:3px", title);
    const c = make("canvas", box, `display:block;width:${size}px;height:${size}px;touch-action:none;cursor:${cursor}`);
    c.setAttribute("role", "img"); c.setAttribute("aria-label", what); c.tabIndex = 0;
    c.width = c.height = 2 * size; const g = c.getContext("2d"); g.scale(2, 2); g.size = size; g.box = box; return g; }
  const mapView = canvas(above, 372, "the map of the network; arrow keys move the point", "every pair of angles: drag the red ring", "crosshair");
  const torusView = canvas(above, 372, "the same map on a torus; arrow keys turn it", "the same on the torus: drag to turn, click to ask");
  const ringView = canvas(below, 154, "the words on their circle; a letter chooses one, arrow keys move it", "drag a word");
  const headViews = OV.map((_, h) => canvas(below, 132, `where head ${h} attends`, `head ${h}`, "crosshair"));
  const globeView = canvas(below, 154, "the globe of the unembedding; arrow keys turn it", "after the heads: drag to turn");
  const sliders = [];
  headViews.forEach((g, h) => [["score", scores], ["output", outputs]].forEach(([name, factors]) => {
    const line = make("label", g.box, "display:flex;align-items:center;gap:4px"), text = make("span", line, "width:82px;white-space:nowrap"), input = make("input", line, "width:46px;margin:2px 0");
    Object.assign(input, { type: "range", min: 0, max: 3, step: 0.05, value: 1 });
    input.setAttribute("aria-label", `head ${h} ${name}`);
    const show = () => { text.textContent = `${name} × ${factors[h]}`; };
    input.oninput = () => { factors[h] = +input.value; show(); soon("map"); };
    sliders.push(() => { factors[h] = input.value = 1; show(); }); show(); }));
  const back = make("button", ringView.box, "margin-top:6px", "as trained");
  // The map and the shares, cell by cell.
  const firsts = [], seconds = [], picture = document.createElement("canvas"); picture.width = picture.height = N;
  for (let i = 0; i < N; i++) { firsts.push(first((i + 0.5) * TURN / N)); seconds.push(second((i + 0.5) * TURN / N)); }
  const image = new ImageData(N, N), light = W.colors.map(c => c.map(x => x ** 2.2));
  const shades = OV.map(() => { const c = document.createElement("canvas"); c.width = c.height = N; return { c, image: new ImageData(N, N) }; });
  function paint() {
    for (let r = 0; r < N; r++) for (let c = 0; c < N; c++) {
      const a = firsts[c], b = seconds[N - 1 - r], to = 4 * (r * N + c), shares = OV.map((_, h) => share(a, b, h));
      shares.forEach((a1, h) => { const ramp = W.ramp[Math.round(a1 * (W.ramp.length - 1))], d = shades[h].image.data;
        d[to] = ramp[0]; d[to + 1] = ramp[1]; d[to + 2] = ramp[2]; d[to + 3] = 255; });
      const p = chances(stream(a, b, shares)), sure = Math.max(0, (Math.max(...p) - 0.2) / 0.8) ** 0.6;
      for (let i = 0; i < 3; i++) {
        let mixed = 0; for (let k = 0; k < p.length; k++) mixed += p[k] * light[k][i];
        image.data[to + i] = 255 * (1 - sure * (1 - mixed ** (1 / 2.2))); }
      image.data[to + 3] = 255; }
    picture.getContext("2d").putImageData(image, 0, 0);
    shades.forEach(s => s.c.getContext("2d").putImageData(s.image, 0, 0)); }
  // The torus: which place of the map each pixel sees, and in what light; its colors come from the map.
  const T = Math.round(1.5 * torusView.size), TUBE = 0.52, scale = T / 3.2, radians = Math.PI / 180, base = new ImageData(T, T), shown = new ImageData(T, T);
  const [depth, near, across, along, bright, gloss] = Array.from({ length: 6 }, () => new Float32Array(T * T));
  const sun = [-0.45, 0.55, 0.7].map(x => x / Math.hypot(0.45, 0.55, 0.7)), half = sun.map((x, i) => x + (i === 2)), long = Math.hypot(...half);
  const lit = (x, y, z) => [0.36 + 0.74 * Math.max(0, 0.5 + 0.5 * (x * sun[0] + y * sun[1] + z * sun[2])) ** 1.3,
    63 * Math.max(0, (x * half[0] + y * half[1] + z * half[2]) / long) ** 40];
  torusView.canvas.width = torusView.canvas.height = T; torusView.scale(T / torusView.size, T / torusView.size);
  let azimuth = W.azimuth, elevation = W.elevation, eyes;
  const ring = (t1, t2, tube = TUBE) => { const out = 1 + tube * Math.sin(t1); return [out * Math.cos(t2), out * Math.sin(t2), tube * Math.cos(t1)]; };
  const place = p => { const [x, y, z] = eyes.map(axis => dot(axis, p)); return [T / 2 + scale * x, T / 2 - scale * y, z]; };
  function solid() {
    const [ca, sa, ce, se] = [Math.cos(azimuth * radians), Math.sin(azimuth * radians), Math.cos(elevation * radians), Math.sin(elevation * radians)];
    eyes = [[-sa, ca, 0], [-se * ca, -se * sa, ce], [ce * ca, ce * sa, se]]; depth.fill(-Infinity);
    const R = 120, C = 60, points = [];
    for (let r = 0; r <= R; r++) for (let c = 0; c <= C; c++) points.push([...place(ring(c / C * TURN, r / R * TURN)), c / C, r / R]);
    for (let r = 0; r < R; r++) for (let c = 0; c < C; c++) { const k = r * (C + 1) + c;
      for (const [a, b, d] of [[k, k + 1, k + C + 2], [k, k + C + 2, k + C + 1]]) fill(points[a], points[b], points[d]); }
    for (let i = 0; i < T * T; i++) if (depth[i] > -Infinity) {
      const [c1, s1, c2, s2] = [Math.cos(across[i] * TURN), Math.sin(across[i] * TURN), Math.cos(along[i] * TURN), Math.sin(along[i] * TURN)];
      const n = [s1 * c2, s1 * s2, c1];
      [bright[i], gloss[i]] = lit(dot(eyes[0], n), dot(eyes[1], n), dot(eyes[2], n)); } }
  function fill(a, b, d) {
    const area = (b[0] - a[0]) * (d[1] - a[1]) - (d[0] - a[0]) * (b[1] - a[1]);
    if (Math.abs(area) < 1e-9) return;
    const low = k => Math.max(0, Math.floor(Math.min(a[k], b[k], d[k]))), high = k => Math.min(T - 1, Math.max(a[k], b[k], d[k]));
    for (let j = low(1); j <= high(1); j++) for (let i = low(0); i <= high(0); i++) {
      const dx = i + 0.5 - a[0], dy = j + 0.5 - a[1], w2 = (dx * (d[1] - a[1]) - (d[0] - a[0]) * dy) / area, w3 = ((b[0] - a[0]) * dy - dx * (b[1] - a[1])) / area;
      if (w2 < -1e-6 || w3 < -1e-6 || w2 + w3 > 1 + 1e-6) continue;
      const mix = k => a[k] + w2 * (b[k] - a[k]) + w3 * (d[k] - a[k]), z = mix(2), pixel = j * T + i;
      if (z > depth[pixel]) { depth[pixel] = z; across[pixel] = mix(3); along[pixel] = mix(4); } } }
  function dress() {
    base.data.fill(0);
    for (let i = 0; i < T * T; i++) if (depth[i] > -Infinity) {
      const x = across[i] * N - 0.5 + N, y = (1 - along[i]) * N - 0.5 + N, c = Math.floor(x), r = Math.floor(y), p = x - c, q = y - r;
      const [top, low, left, right] = [4 * N * (r % N), 4 * N * ((r + 1) % N), 4 * (c % N), 4 * ((c + 1) % N)], d = image.data;
      for (let k = 0; k < 3; k++) base.data[4 * i + k] = gloss[i] + bright[i] * ((1 - q) * ((1 - p) * d[top + left + k] + p * d[top + right + k])
        + q * ((1 - p) * d[low + left + k] + p * d[low + right + k]));
      base.data[4 * i + 3] = 255; } }
  function pearl(angles, color, R) {  // whether most of it is seen
    const [x, y, z] = place(ring(...angles, TUBE + 0.03)), size = R / scale; let all = 0, seen = 0;
    for (let j = Math.max(0, Math.floor(y - R)); j <= Math.min(T - 1, y + R); j++) for (let i = Math.max(0, Math.floor(x - R)); i <= Math.min(T - 1, x + R); i++) {
      const a = (i + 0.5 - x) / R, b = (y - j - 0.5) / R, square = a * a + b * b, c = Math.sqrt(1 - square), pixel = j * T + i;
      if (square >= 1) continue;
      all++; if (z + size * c <= near[pixel]) continue;
      seen++; near[pixel] = z + size * c;
      const [l, s] = lit(a, b, c);
      for (let k = 0; k < 3; k++) shown.data[4 * pixel + k] = square > 0.7 ? 255 : 255 * color[k] * l + s;
      shown.data[4 * pixel + 3] = 255; }
    return seen > all / 2; }
  // The globe: whose column of W_U has the largest product with each direction.
  const G = 2 * globeView.size, globe = new ImageData(G, G);
  let view = W.view;  // rows: right, up, to the eye
  function world() {
    const [r, up, eye] = view;
    for (let y = 0; y < G; y++) for (let x = 0; x < G; x++) {
      const px = (x + 0.5) / G * 2.06 - 1.03, py = 1.03 - (y + 0.5) / G * 2.06, z2 = 1 - px * px - py * py;
      if (z2 < 0) continue;
      const z = Math.sqrt(z2), s = [px * r[0] + py * up[0] + z * eye[0], px * r[1] + py * up[1] + z * eye[1], px * r[2] + py * up[2] + z * eye[2]];
      const k = best(s), [l, shine] = lit(px, py, z);
      for (let i = 0; i < 3; i++) globe.data[4 * (y * G + x) + i] = 255 * W.colors[k][i] * l + shine;
      globe.data[4 * (y * G + x) + 3] = 255; } }
  // Dots, the red ring of the point that is asked, and the words around.
  const css = k => `rgb(${W.colors[k].map(x => 255 * x)})`;
  function mark(g, x, y, k, size, letter) {
    g.beginPath(); g.arc(x, y, size, 0, TURN); g.fillStyle = css(k); g.fill();
    g.strokeStyle = "white"; g.lineWidth = Math.min(2, size / 2.5); g.stroke();
    if (!letter) { g.beginPath(); g.arc(x, y, size + 1, 0, TURN); g.strokeStyle = "#222"; g.lineWidth = 0.8; g.stroke(); return; }
    g.fillStyle = k === 1 || k === 4 ? "#222" : "white"; g.font = `bold ${1.25 * size}px sans-serif`;
    g.textAlign = "center"; g.textBaseline = "middle"; g.fillText(letter, x, y + 0.5); }
  const circled = (g, x, y, size, faint) => [["white", 5], [RED, 2.5]].forEach(([color, wide]) => { g.globalAlpha = faint ? 0.45 : 1;
    g.beginPath(); g.arc(x, y, size, 0, TURN); g.strokeStyle = color; g.lineWidth = wide; g.stroke(); g.globalAlpha = 1; });
  function draw() {
    const f = theta.map(first), s = theta.map(second), [ask1, ask2] = asked(), now = answer(ask1, ask2), points = [];
    let known = 0, g = mapView, size = g.size;
    const dots = (m, left, letters, each) => theta.forEach((t, i) => theta.forEach((w, j) =>
      each(left + t / TURN * m, m * (1 - w / TURN), 5 * i + j)));
    for (let i = 0; i < 5; i++) for (let j = 0; j < 5; j++) points.push(stream(f[i], s[j], OV.map((_, h) => share(f[i], s[j], h))));
    const right = points.map((p, i) => best(p) === W.facts[i]), m = size - 24;
    g.clearRect(0, 0, size, size); g.imageSmoothingQuality = "high"; g.drawImage(picture, 24, 0, m, m);
    theta.forEach((t, i) => theta.forEach((w, j) => { const k = 5 * i + j, x = 24 + t / TURN * m, y = m * (1 - w / TURN);
      known += right[k]; mark(g, x, y, W.facts[k], 9.5, names[W.facts[k]]);
      if (!right[k]) { g.strokeStyle = "black"; g.lineWidth = 3; g.beginPath();
        for (const d of [-1, 1]) { g.moveTo(x - 10, y - 10 * d); g.lineTo(x + 10, y + 10 * d); } g.stroke(); } }));
    g.fillStyle = "#222"; g.font = "bold 13px sans-serif"; g.textAlign = "center"; g.textBaseline = "middle";
    theta.forEach((t, i) => { g.fillText(names[i], 24 + t / TURN * m, size - 11); g.fillText(names[i], 11, m * (1 - t / TURN)); });
    circled(g, 24 + ask1 / TURN * m, m * (1 - ask2 / TURN), 13);
    const who = free ? [ask1, ask2].map(t => `${Math.round(t / radians)}°`).join(", ") : pair.map(k => names[k]).join(" ");
    said.textContent = `${who} → ${names[now.best]} with probability ${now.chances[now.best].toFixed(2)} · ${known} of 25 facts known`;
    headViews.forEach((g, h) => { const n = g.size; g.clearRect(0, 0, n, n); g.imageSmoothingQuality = "high"; g.drawImage(shades[h].c, 0, 0, n, n);
      g.globalAlpha = 1 - Math.min(1, outputs[h]); g.fillStyle = "#b5b5b5"; g.fillRect(0, 0, n, n); g.globalAlpha = 1;  // an ablated head is veiled
      theta.forEach((t, i) => theta.forEach((w, j) => mark(g, t / TURN * n, n * (1 - w / TURN), W.facts[5 * i + j], 2.6)));
      circled(g, ask1 / TURN * n, n * (1 - ask2 / TURN), 7);
      g.box.firstChild.textContent = `head ${h}: ${now.shares[h].toFixed(2)} on 1st`; });
    g = ringView; size = g.size; g.clearRect(0, 0, size, size);
    g.beginPath(); g.arc(size / 2, size / 2, 0.4 * size, 0, TURN); g.strokeStyle = "#222"; g.lineWidth = 1.5; g.stroke();
    theta.forEach((t, k) => mark(g, size / 2 + 0.4 * size * Math.cos(t), size / 2 - 0.4 * size * Math.sin(t), k, 12, names[k]));
    shown.data.set(base.data); near.set(depth); g = torusView; size = g.size;
    theta.forEach((t, i) => theta.forEach((w, j) => pearl([t, w], W.colors[W.facts[5 * i + j]], 0.022 * T)));
    const seen = pearl([ask1, ask2], W.colors[now.best], 0.03 * T), [x, y] = place(ring(ask1, ask2, TUBE + 0.03)).map(z => z / T * size);
    g.putImageData(shown, 0, 0); circled(g, x, y, 0.033 * size, !seen);
    g = globeView; size = g.size; g.putImageData(globe, 0, 0);
    const onGlobe = p => { const [x, y, z] = view.map(axis => dot(axis, p) / Math.hypot(...p)); return [size * (0.5 + x / 2.06), size * (0.5 - y / 2.06), z]; };
    points.forEach((p, i) => { const [x, y, z] = onGlobe(p); if (z > 0) mark(g, x, y, W.facts[i], 4); });
    const [gx, gy, gz] = onGlobe(now.stream); circled(g, gx, gy, 7, gz < 0); }
  // One drawing a frame: what has changed is done again, and all that depends on it.
  const due = new Set();
  function soon(what) { if (!due.size) requestAnimationFrame(frame); due.add(what); }
  function frame() {
    if (due.has("map")) paint();
    if (due.has("torus")) solid();
    if (due.has("globe")) world();
    if (due.has("map") || due.has("torus")) dress();
    due.clear(); draw(); }
  // Hands: pointers of any kind, and keys.
  function hand(g, down, move, keys) {
    const c = g.canvas; let last = null;
    const spot = e => { const box = c.getBoundingClientRect(), k = g.size / box.width; return [(e.clientX - box.left) * k, (e.clientY - box.top) * k]; };
    c.onpointerdown = e => { c.setPointerCapture(e.pointerId); last = spot(e); down(last); };
    c.onpointermove = e => { if (!last) return; const now = spot(e); move(now, now[0] - last[0], now[1] - last[1]); last = now; };
    c.onpointerup = c.onpointercancel = () => { last = null; };
    c.onkeydown = e => { const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[e.key];
      if (e.ctrlKey || e.metaKey || e.altKey || !(step || names.includes(e.key.toUpperCase()))) return;
      if (keys(step, names.indexOf(e.key.toUpperCase())) !== false) { e.preventDefault(); e.stopPropagation(); } }; }
  const wrap = t => (t % TURN + TURN) % TURN, gap = (a, b) => Math.abs(wrap(a - b + Math.PI) - Math.PI);
  function ask(x, y, reach) {  // two parts of a turn; a dot nearby is taken instead
    const clamp = t => Math.max(0, Math.min(0.9999, t)) * TURN, [a, b] = [clamp(x), clamp(y)];
    const close = t => theta.reduce((top, w, k) => gap(w, t) < gap(theta[top], t) ? k : top, 0), [i, j] = [close(a), close(b)];
    free = null; if (Math.hypot(gap(theta[i], a), gap(theta[j], b)) < reach * TURN) pair = [i, j]; else free = [a, b];
    soon("dots"); }
  const nudge = step => { if (!step) return false;
    free = asked().map((t, k) => wrap(t + step[k] * Math.PI / 60)); soon("dots"); };
  const onMap = ([x, y]) => ask((x - 24) / (mapView.size - 24), 1 - y / (mapView.size - 24), 0.025);
  hand(mapView, onMap, onMap, nudge);
  headViews.forEach(g => { const to = ([x, y]) => ask(x / g.size, 1 - y / g.size, 0.03); hand(g, to, to, nudge); });
  let held = 3, moved = 0;
  const angle = ([x, y]) => wrap(Math.atan2(ringView.size / 2 - y, x - ringView.size / 2));
  hand(ringView, p => { held = theta.reduce((top, t, k) => gap(t, angle(p)) < gap(theta[top], angle(p)) ? k : top, 0); },
    p => { theta[held] = angle(p); soon("dots"); },
    (step, k) => { if (step) theta[held] = wrap(theta[held] + (step[0] ? -step[0] : step[1]) * Math.PI / 90); else held = k; soon("dots"); });
  const spin = (right, up) => { azimuth -= right; elevation = Math.max(-90, Math.min(90, elevation + up)); soon("torus"); };
  hand(torusView, () => { moved = 0; }, (p, dx, dy) => { moved += Math.hypot(dx, dy); spin(dx / 2, dy / 2); },
    step => step ? spin(10 * step[0], 10 * step[1]) : false);
  torusView.canvas.onclick = e => { const box = torusView.canvas.getBoundingClientRect(), [i, j] = [e.clientX - box.left, e.clientY - box.top].map(x => Math.floor(x / box.width * T));
    if (moved < 4 && depth[j * T + i] > -Infinity) ask(across[j * T + i], along[j * T + i], 0.03); };
  const turn = (a, b, x) => { const c = Math.cos(x), s = Math.sin(x);
    const [p, q] = [view[a].map((w, i) => c * w + s * view[b][i]), view[b].map((w, i) => c * w - s * view[a][i])];
    view[a] = p; view[b] = q; soon("globe"); };
  const roll = (dx, dy) => { turn(0, 2, -dx / 90); turn(1, 2, dy / 90); };
  hand(globeView, () => {}, (p, dx, dy) => roll(dx, dy), step => step ? roll(15 * step[0], -15 * step[1]) : false);
  back.onclick = () => { W.theta.forEach((t, k) => { theta[k] = t; }); sliders.forEach(reset => reset()); pair = [1, 1]; free = null; soon("map"); };
  ["map", "torus", "globe", "dots"].forEach(soon);
}

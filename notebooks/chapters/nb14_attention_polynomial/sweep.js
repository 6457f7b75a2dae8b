// Where one head attends: the straight line of a second word on the circle, and the map that it sweeps.
(root, data) => {
  const TURN = 2 * Math.PI, N = 440, side = 330, names = "ABCDE", degrees = 180 / Math.PI;
  const cos = [], sin = [];
  for (let i = 0; i < N; i++) { cos.push(Math.cos((i + 0.5) * TURN / N)); sin.push(Math.sin((i + 0.5) * TURN / N)); }
  // The head's score for this second word is g0 cos + g1 sin + h of the first word's angle.
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0), column = (M, k) => M.map(row => row[k]);
  function line(t) {
    const x2 = data.p2.map((p, i) => p + dot(data.plane[i], [Math.cos(t), Math.sin(t)]));
    const query = x2.map((_, j) => dot(x2, column(data.W, j)));
    return [dot(query, column(data.plane, 0)), dot(query, column(data.plane, 1)), dot(query, data.p1.map((p, i) => p - x2[i]))]; }
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag);
    e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  const canvas = (parent, n, what) => { const c = make("canvas", parent, `width:${side}px;height:${side}px;touch-action:none`);
    c.width = c.height = n; c.setAttribute("role", "img"); c.setAttribute("aria-label", what); return c; };
  root.textContent = "";
  root.style.cssText = "display:flex;gap:26px;flex-wrap:wrap;color:#222;background:#fff;font:14px sans-serif;padding:6px";
  const [left, right, more] = [0, 0, 0].map(() => make("div", root));
  make("div", left, "margin-bottom:4px", "first words on their circle");
  const circle = canvas(left, 2 * side, "the circle of first words and a straight line");
  make("div", right, "margin-bottom:4px", "attention to the first word; drag the second up and down");
  const map = canvas(right, 2 * side, "the attention to the first word, for all pairs");
  const picture = document.createElement("canvas"); picture.width = picture.height = N;
  let second = data.second, timer = null;
  const shade = a => data.ramp[Math.max(0, Math.min(255, Math.round(255 * a)))];
  function paint() {
    const g = picture.getContext("2d"), image = g.createImageData(N, N), up = new Uint8Array(N * N);
    for (let r = 0; r < N; r++) { const [g0, g1, h] = line((N - r - 0.5) * TURN / N);
      for (let c = 0; c < N; c++) { const l = g0 * cos[c] + g1 * sin[c] + h, color = shade(1 / (1 + Math.exp(-l)));
        up[r * N + c] = l > 0; for (let k = 0; k < 3; k++) image.data[4 * (r * N + c) + k] = color[k];
        image.data[4 * (r * N + c) + 3] = 255; } }
    for (let r = 1; r < N; r++) for (let c = 1; c < N; c++) { const i = r * N + c;
      if (up[i] !== up[i - 1] || up[i] !== up[i - N]) for (const j of [i, i - 1, i - N])
        [230, 159, 0].forEach((v, k) => { image.data[4 * j + k] = v; }); }
    g.putImageData(image, 0, 0); }
  const spot = (g, x, y, k, size) => { g.beginPath(); g.arc(x, y, size, 0, TURN); g.fillStyle = `rgb(${data.colors[k]})`;
    g.fill(); g.strokeStyle = "#fff"; g.lineWidth = 3; g.stroke(); };
  function draw() {
    let g = map.getContext("2d"), n = 2 * side, rim = 40, m = n - rim;
    g.clearRect(0, 0, n, n); g.imageSmoothingQuality = "high"; g.drawImage(picture, rim, 0, m, m);
    g.font = "bold 22px sans-serif"; g.fillStyle = "#222"; g.textAlign = "center"; g.textBaseline = "middle";
    data.theta.forEach((t, k) => { g.fillText(names[k], rim + t / TURN * m, n - 18); g.fillText(names[k], 18, m * (1 - t / TURN)); });
    const y = m * (1 - second / TURN); g.fillStyle = "#fff"; g.fillRect(rim, y - 4, m, 8); g.fillStyle = "#B22222"; g.fillRect(rim, y - 2, m, 4);
    const [g0, g1, h] = line(second), size = Math.hypot(g0, g1), turn = Math.atan2(g1, g0);
    const at = Math.abs(h) < size ? [-1, 1].map(s => (turn + s * Math.acos(-h / size) + 2 * TURN) % TURN) : [];
    for (const a of at) { g.beginPath(); g.arc(rim + a / TURN * m, y, 9, 0, TURN); g.fillStyle = "#B22222"; g.fill(); g.strokeStyle = "#fff"; g.lineWidth = 3; g.stroke(); }
    g = circle.getContext("2d"); const R = 0.34 * n, mid = n / 2; g.clearRect(0, 0, n, n);
    const image = g.createImageData(n, n);
    for (let j = 0; j < n; j++) for (let i = 0; i < n; i++) { const x = (i - mid) / R, v = (mid - j) / R;
      if (x * x + v * v > 1 || x * x + v * v < 0.52) continue;  // a ring: the row of the map, bent
      const color = shade(1 / (1 + Math.exp(-(g0 * x + g1 * v + h)))), p = 4 * (j * n + i);
      for (let k = 0; k < 3; k++) image.data[p + k] = color[k]; image.data[p + 3] = 255; }
    g.putImageData(image, 0, 0);
    g.beginPath(); g.arc(mid, mid, R, 0, TURN); g.strokeStyle = "#222"; g.lineWidth = 3; g.stroke();
    const foot = [-h * g0 / size ** 2, -h * g1 / size ** 2], along = [-g1 / size, g0 / size];
    g.beginPath(); for (const s of [-3, 3]) g.lineTo(mid + R * (foot[0] + s * along[0]), mid - R * (foot[1] + s * along[1]));
    g.strokeStyle = "#B22222"; g.lineWidth = 5; g.stroke();
    if (at.length) { const u = [g0 / size, g1 / size], tip = [0, 1].map(k => foot[k] + 0.42 * u[k]);  // to the dark side
      const put = (a, b) => g.lineTo(mid + R * (tip[0] - a * u[0] - b * u[1]), mid - R * (tip[1] - a * u[1] + b * u[0]));
      g.beginPath(); put(0.42, 0); put(0.1, 0); g.stroke();
      g.beginPath(); put(0, 0); put(0.13, 0.07); put(0.13, -0.07); g.fillStyle = "#B22222"; g.fill(); }
    data.theta.forEach((t, k) => { spot(g, mid + R * Math.cos(t), mid - R * Math.sin(t), k, 17);
      g.fillStyle = k === 1 || k === 4 ? "#222" : "#fff"; g.font = "bold 20px sans-serif"; g.textAlign = "center"; g.textBaseline = "middle";
      g.fillText(names[k], mid + R * Math.cos(t), mid - R * Math.sin(t) + 1); });
    for (const a of at) { g.beginPath(); g.arc(mid + R * Math.cos(a), mid - R * Math.sin(a), 9, 0, TURN); g.fillStyle = "#B22222"; g.fill(); g.strokeStyle = "#fff"; g.lineWidth = 3; g.stroke(); }
    said.textContent = `second word at ${Math.round(second * degrees)}°: ` + (at.length ? "the line cuts the circle" : "the line misses the circle"); }
  const said = make("div", more, "margin-bottom:10px;min-width:260px");
  const button = make("button", more, "margin-top:4px", "play");
  function step() {  // the second word goes once around
    second = (second + TURN / 240) % TURN;
    draw(); }
  button.onclick = () => { if (timer) { clearInterval(timer); timer = null; } else timer = setInterval(step, 50);
    button.textContent = timer ? "stop" : "play"; };
  const move = event => { if (!event.buttons) return; const box = map.getBoundingClientRect(), m = box.height * (1 - 20 / side);
    second = Math.max(0, Math.min(0.9999, 1 - (event.clientY - box.top) / m)) * TURN; draw(); };
  map.onpointerdown = event => { map.setPointerCapture(event.pointerId); move(event); }; map.onpointermove = move;
  map.style.cursor = "ns-resize"; map.tabIndex = 0;
  map.onkeydown = event => { const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (up) { second = (second + up * TURN / 72 + TURN) % TURN; draw(); event.preventDefault(); event.stopPropagation(); } };
  paint(); draw();
}

// A whole network on one mesh, and one slider: map, tube, torus, after the heads, on the globe.
// Drawn by makeMesh of mesh.js; the shapes are those of journey.py.
(root, data) => {
  const { n, offset, stages, pearls, cells } = data, TURN = 2 * Math.PI, last = stages.length - 1, side = 440;
  const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)), heads = Float32Array.from(new Int16Array(bytes(data.heads).buffer), x => x * data.unit);
  const ease = (t, from) => { const x = Math.max(0, Math.min(1, t - from)); return x * x * (3 - 2 * x); }, mix = (a, b, x) => a + x * (b - a);
  /** Where the pair of angles is at a time; written: what the heads add for it. */
  function place(t, theta1, theta2, written) {
    const rolled = Math.max(ease(t, 0), 1e-3), bent = Math.max(ease(t, 1), 1e-3), turned = ease(t, 2), strength = turned ** 3, power = 1 - ease(t, 3);
    const tube = mix(1, 0.52, ease(t, 1)) * (1 - turned) / rolled, turn = (theta1 - Math.PI) * rolled, swing = (theta2 - Math.PI) * bent, wide = 1 / bent - tube * Math.sin(turn);
    const at = [-wide * Math.sin(swing), 1 / bent - wide * Math.cos(swing) - bent, tube * (1 - rolled - Math.cos(turn))];
    for (let i = 0; i < 3; i++) at[i] += strength * (offset[i] + written[i]);
    const far = Math.hypot(...at) ** (power - 1);
    return t > 3 ? at.map(x => x * far) : at; }
  function shape(t) {
    const points = new Float32Array(heads.length);
    for (let r = 0, k = 0; r <= n; r++) for (let c = 0; c <= n; c++, k += 3) points.set(place(t, TURN * c / n, TURN * r / n, heads.subarray(k, k + 3)), k);
    const low = [0, 1, 2].map(() => Infinity), high = low.map(x => -x);
    points.forEach((x, k) => { low[k % 3] = Math.min(low[k % 3], x); high[k % 3] = Math.max(high[k % 3], x); });
    const middle = low.map((x, i) => (x + high[i]) / 2 * (1 - ease(t, 3)));
    let reach = 0;
    for (let k = 0; k < points.length; k += 3) reach = Math.max(reach, Math.hypot(...middle.map((x, i) => points[k + i] - x)));
    const fit = at => at.map((x, i) => (x - middle[i]) / reach);
    for (let k = 0; k < points.length; k += 3) points.set(fit([...points.subarray(k, k + 3)]), k);
    return { points, dots: pearls.map(({ theta, written, color }) => [...fit(place(t, ...theta, written)), ...color]), reach }; }
  if (!root) return { shape };  // for tests
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag); e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  root.textContent = "";
  root.style.cssText = "font:15px system-ui,sans-serif;color:#222;background:#fff;padding:8px;max-width:460px;box-sizing:border-box";
  const canvas = make("canvas", root, "width:100%;aspect-ratio:1;cursor:grab;touch-action:none;display:block");
  const caption = make("p", root, "margin:4px 0 8px;min-height:3em;line-height:1.45"), bar = make("div", root, "display:flex;gap:10px;align-items:center");
  const button = make("button", bar, "width:40px;height:40px;flex:none;border-radius:50%;border:0;background:#7b3f99;color:#fff;cursor:pointer;font-size:14px", "▶"), slider = make("input", bar, "flex:1;accent-color:#7b3f99;min-width:0");
  Object.assign(slider, { type: "range", min: 0, max: last, step: 0.01, value: 0 });
  slider.setAttribute("aria-label", "from the map to the globe"); button.setAttribute("aria-label", "Play");
  canvas.tabIndex = 0; canvas.setAttribute("role", "img"); caption.setAttribute("aria-live", "polite");
  const paint = makeMesh(canvas, side, bytes(data.colors), data.m);
  let right = 0, up = 0, playing = false;
  const pale = (color, by) => color.map(x => 255 - by * (255 - x));
  const cellOf = (x, y, z) => { let best = 0, most = -Infinity; cells.forEach(({ axis: a }, k) => { const s = a[0] * x + a[1] * y + a[2] * z; if (s > most) { most = s; best = k; } }); return pale(cells[best].color, 0.75); };
  function draw() {
    const t = +slider.value, k = Math.min(Math.floor(t), last - 1), x = ease(t - k, 0), { points, dots } = shape(t), [a, b] = [stages[k].view, stages[k + 1].view], there = ease(t, 4);
    paint(points, n + 1, n + 1, Math.max(-90, Math.min(90, mix(a[0], b[0], x) + up)), mix(a[1], b[1], x) - right, dots, there ? globe => globe(there, cellOf) : null);
    const stage = stages[Math.round(t)];
    if (caption.dataset.said !== stage.name) {
      caption.dataset.said = stage.name; caption.replaceChildren();
      make("b", caption, "", stage.name + " "); caption.append(stage.said); canvas.setAttribute("aria-label", `${stage.name} ${stage.said}`); slider.setAttribute("aria-valuetext", stage.name); } }
  let waiting = false;
  const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } };
  function play(on) {
    playing = on; button.textContent = on ? "❚❚" : "▶"; button.setAttribute("aria-label", on ? "Pause" : "Play");
    if (!on) return;
    if (+slider.value >= last) slider.value = 0;
    const began = performance.now(), from = +slider.value;
    (function tick() {
      if (!playing || !root.isConnected) return;
      slider.value = Math.min(last, from + (performance.now() - began) / 1600);
      draw();
      if (+slider.value >= last) play(false); else requestAnimationFrame(tick); })(); }
  button.onclick = () => play(!playing);
  slider.oninput = () => { if (playing) play(false); soon(); };
  canvas.onpointerdown = event => canvas.setPointerCapture(event.pointerId);
  canvas.onpointermove = event => { if (event.buttons) { right += event.movementX / 2; up += event.movementY / 2; soon(); } };
  canvas.onkeydown = event => {
    const step = { ArrowLeft: [-10, 0], ArrowRight: [10, 0], ArrowUp: [0, 10], ArrowDown: [0, -10] }[event.key];
    if (step) { right += step[0]; up += step[1]; soon(); event.preventDefault(); event.stopPropagation(); } };
  draw();
}

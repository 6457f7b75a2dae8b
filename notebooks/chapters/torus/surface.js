// A closed surface in space, lit, that can be turned: triangles with a depth for each pixel.
(root, data) => {
  const n = data.n, m = data.m, size = 420, N = 1.5 * size, radians = Math.PI / 180;
  const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const points = Float32Array.from(new Int16Array(bytes(data.points).buffer), x => x / 32767);
  const colors = bytes(data.colors), seen = new Float32Array(3 * n * n), normals = new Float32Array(3 * n * n);
  root.textContent = "";
  root.style.cssText = "font:14px sans-serif;color:#222;background:#fff;padding:6px;width:max-content";
  const canvas = document.createElement("canvas"), note = document.createElement("div");
  canvas.width = canvas.height = N; canvas.tabIndex = 0;
  canvas.style.cssText = `width:${size}px;height:${size}px;cursor:grab;touch-action:none`;
  canvas.setAttribute("role", "img"); canvas.setAttribute("aria-label", data.said);
  note.textContent = "Drag to turn, or use the arrow keys.";
  root.append(canvas, note);
  let { azimuth, elevation } = data;
  const g = canvas.getContext("2d"), image = g.createImageData(N, N), depth = new Float32Array(N * N);
  const light = [-0.45, 0.55, 0.7].map(x => x / Math.hypot(0.45, 0.55, 0.7));
  const half = light.map((x, i) => x + (i === 2)), long = Math.hypot(...half);
  function project() {
    const ca = Math.cos(azimuth * radians), sa = Math.sin(azimuth * radians);
    const ce = Math.cos(elevation * radians), se = Math.sin(elevation * radians);
    for (let i = 0; i < seen.length; i += 3) {
      const [x, y, z] = [points[i], points[i + 1], points[i + 2]], out = x * ca + y * sa;
      seen[i] = y * ca - x * sa; seen[i + 1] = z * ce - out * se; seen[i + 2] = out * ce + z * se; }
    for (let r = 0; r < n; r++) for (let c = 0; c < n; c++) {
      const at = (i, j) => 3 * ((i + n) % n * n + (j + n) % n), k = at(r, c);
      const [a, b, d, e] = [at(r + 1, c), at(r - 1, c), at(r, c + 1), at(r, c - 1)];
      const u = [0, 1, 2].map(i => seen[a + i] - seen[b + i]), v = [0, 1, 2].map(i => seen[d + i] - seen[e + i]);
      const w = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
      const scale = (w[2] < 0 ? -1 : 1) / (Math.hypot(...w) || 1);
      for (let i = 0; i < 3; i++) normals[k + i] = scale * w[i]; } }
  function triangle(places, rows, columns) {  // rows, columns: where the corners stand on the sheet
    const [a, b, c] = places, x = i => (0.5 + 0.49 * seen[i]) * N, y = i => (0.5 - 0.49 * seen[i + 1]) * N;
    const [ax, ay, bx, by, cx, cy] = [x(a), y(a), x(b), y(b), x(c), y(c)];
    const area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
    if (Math.abs(area) < 1e-9) return;
    const mix = (p, q, s, w2, w3) => p + w2 * (q - p) + w3 * (s - p);
    for (let j = Math.max(0, Math.floor(Math.min(ay, by, cy))); j <= Math.min(N - 1, Math.max(ay, by, cy)); j++)
      for (let i = Math.max(0, Math.floor(Math.min(ax, bx, cx))); i <= Math.min(N - 1, Math.max(ax, bx, cx)); i++) {
        const dx = i + 0.5 - ax, dy = j + 0.5 - ay;
        const w2 = (dx * (cy - ay) - (cx - ax) * dy) / area, w3 = ((bx - ax) * dy - dx * (by - ay)) / area;
        if (w2 < 0 || w3 < 0 || w2 + w3 > 1) continue;
        const near = mix(seen[a + 2], seen[b + 2], seen[c + 2], w2, w3), pixel = j * N + i;
        if (near <= depth[pixel]) continue;
        depth[pixel] = near;
        const nx = mix(normals[a], normals[b], normals[c], w2, w3);
        const ny = mix(normals[a + 1], normals[b + 1], normals[c + 1], w2, w3);
        const nz = mix(normals[a + 2], normals[b + 2], normals[c + 2], w2, w3);
        const length = Math.sqrt(nx * nx + ny * ny + nz * nz) || 1;
        const facing = v => (nx * v[0] + ny * v[1] + nz * v[2]) / length;
        const bright = 0.36 + 0.74 * Math.max(0, 0.5 + 0.5 * facing(light)) ** 1.3;
        const shine = 63 * Math.max(0, facing(half) / long) ** 40;
        const down = mix(rows[0], rows[1], rows[2], w2, w3) / n * m - 0.5 + m;
        const across = mix(columns[0], columns[1], columns[2], w2, w3) / n * m - 0.5 + m;
        const r = Math.floor(down), s = Math.floor(across), v = down - r, u = across - s, to = 4 * pixel;
        const [p, q] = [r % m * m, (r + 1) % m * m], [left, right] = [s % m, (s + 1) % m];
        for (let k = 0; k < 3; k++) {
          const color = (1 - v) * ((1 - u) * colors[3 * (p + left) + k] + u * colors[3 * (p + right) + k])
            + v * ((1 - u) * colors[3 * (q + left) + k] + u * colors[3 * (q + right) + k]);
          image.data[to + k] = color * bright + shine; }
        image.data[to + 3] = 255; } }
  function ball(dot) {  // a pearl with a white rim, a little nearer to the eye than its point
    const ca = Math.cos(azimuth * radians), sa = Math.sin(azimuth * radians), R = 0.02 * N;
    const ce = Math.cos(elevation * radians), se = Math.sin(elevation * radians);
    const out = dot[0] * ca + dot[1] * sa, x = (0.5 + 0.49 * (dot[1] * ca - dot[0] * sa)) * N;
    const y = (0.5 - 0.49 * (dot[2] * ce - out * se)) * N, near = out * ce + dot[2] * se + 0.03;
    for (let j = Math.max(0, Math.floor(y - R)); j <= Math.min(N - 1, y + R); j++)
      for (let i = Math.max(0, Math.floor(x - R)); i <= Math.min(N - 1, x + R); i++) {
        const u = (i + 0.5 - x) / R, v = (y - j - 0.5) / R, square = u * u + v * v, w = Math.sqrt(1 - square);
        const pixel = j * N + i;
        if (square >= 1 || near + 0.04 * w <= depth[pixel]) continue;
        depth[pixel] = near + 0.04 * w;
        const facing = a => u * a[0] + v * a[1] + w * a[2];
        const bright = 0.36 + 0.74 * Math.max(0, 0.5 + 0.5 * facing(light)) ** 1.3;
        const shine = 63 * Math.max(0, facing(half) / long) ** 40;
        for (let k = 0; k < 3; k++) image.data[4 * pixel + k] = square > 0.72 ? 255 : dot[3 + k] * bright + shine;
        image.data[4 * pixel + 3] = 255; } }
  function draw() {
    depth.fill(-Infinity); image.data.fill(0); project();
    for (let r = 0; r < n; r++) for (let c = 0; c < n; c++) {
      const at = (i, j) => 3 * (i % n * n + j % n);  // the surface closes on itself
      const [a, b, d, e] = [at(r, c), at(r, c + 1), at(r + 1, c + 1), at(r + 1, c)];
      triangle([a, b, d], [r, r, r + 1], [c, c + 1, c + 1]);
      triangle([a, d, e], [r, r + 1, r + 1], [c, c + 1, c]); }
    (data.dots || []).forEach(ball);
    g.putImageData(image, 0, 0); }
  function turn(right, up) {
    azimuth -= right; elevation = Math.max(-90, Math.min(90, elevation + up)); requestAnimationFrame(draw); }
  canvas.onpointerdown = event => canvas.setPointerCapture(event.pointerId);
  canvas.onpointermove = event => { if (event.buttons) turn(event.movementX / 2, event.movementY / 2); };
  canvas.onkeydown = event => {
    const step = { ArrowLeft: [-10, 0], ArrowRight: [10, 0], ArrowUp: [0, 10], ArrowDown: [0, -10] }[event.key];
    if (step) { turn(...step); event.preventDefault(); event.stopPropagation(); } };
  draw();
}

// A renderer of one sheet of points in a canvas: triangles with a depth for each pixel, soft light,
// pearls, and a globe over the sheet. makeMesh(canvas, side, colors, m): colors [m, m, 3], cyclic.
function makeMesh(canvas, side, colors, m) {
  const N = 1.5 * side, radians = Math.PI / 180, g = canvas.getContext("2d");
  canvas.width = canvas.height = N;
  const image = g.createImageData(N, N), depth = new Float32Array(N * N), mixed = (p, q, s, w2, w3) => p + w2 * (q - p) + w3 * (s - p);
  const light = [-0.45, 0.55, 0.7].map(x => x / Math.hypot(0.45, 0.55, 0.7));
  const half = light.map((x, i) => x + (i === 2)), long = Math.hypot(...half);
  const shade = (x, y, z) => [0.36 + 0.74 * Math.max(0, 0.5 + 0.5 * (x * light[0] + y * light[1] + z * light[2])) ** 1.3,
    63 * Math.max(0, (x * half[0] + y * half[1] + z * half[2]) / long) ** 40];
  let seen, normals, turn;
  /** Points [rows * columns * 3] in (right, up, to the eye), and normals that face the eye. */
  function project(points, rows, columns, elevation, azimuth) {
    const [ca, sa, ce, se] = [azimuth, azimuth, elevation, elevation].map((x, i) => (i % 2 ? Math.sin : Math.cos)(x * radians));
    turn = (x, y, z) => { const out = x * ca + y * sa; return [y * ca - x * sa, z * ce - out * se, out * ce + z * se]; };
    if (!seen || seen.length !== points.length) { seen = new Float32Array(points.length); normals = new Float32Array(points.length); }
    for (let i = 0; i < points.length; i += 3) seen.set(turn(points[i], points[i + 1], points[i + 2]), i);
    const same = (a, b) => Math.hypot(points[a] - points[b], points[a + 1] - points[b + 1], points[a + 2] - points[b + 2]) < 1e-3;
    const at = (r, c) => 3 * (r * columns + c);  // one place on, over the seam where the sheet is closed
    const beside = (k, last, back, closed) => (back ? (k > 0 ? k - 1 : closed ? last - 1 : 0) : (k < last ? k + 1 : closed ? 1 : last));
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) {
      const down = same(at(0, c), at(rows - 1, c)), across = same(at(r, 0), at(r, columns - 1)), k = at(r, c);
      const [a, b] = [at(beside(r, rows - 1, false, down), c), at(beside(r, rows - 1, true, down), c)];
      const [d, e] = [at(r, beside(c, columns - 1, false, across)), at(r, beside(c, columns - 1, true, across))];
      const u = [0, 1, 2].map(i => seen[a + i] - seen[b + i]), v = [0, 1, 2].map(i => seen[d + i] - seen[e + i]);
      const w = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
      const scale = (w[2] < 0 ? -1 : 1) / (Math.hypot(...w) || 1);
      for (let i = 0; i < 3; i++) normals[k + i] = scale * w[i]; } }
  function triangle(places, down, along) {  // down, along: where the corners stand on the sheet, 0 … 1
    const [a, b, c] = places, x = i => (0.5 + 0.49 * seen[i]) * N, y = i => (0.5 - 0.49 * seen[i + 1]) * N;
    const [ax, ay, bx, by, cx, cy] = [x(a), y(a), x(b), y(b), x(c), y(c)], area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay);
    if (Math.abs(area) < 1e-9) return;
    for (let j = Math.max(0, Math.floor(Math.min(ay, by, cy))); j <= Math.min(N - 1, Math.max(ay, by, cy)); j++)
      for (let i = Math.max(0, Math.floor(Math.min(ax, bx, cx))); i <= Math.min(N - 1, Math.max(ax, bx, cx)); i++) {
        const dx = i + 0.5 - ax, dy = j + 0.5 - ay, w2 = (dx * (cy - ay) - (cx - ax) * dy) / area, w3 = ((bx - ax) * dy - dx * (by - ay)) / area;
        if (w2 < 0 || w3 < 0 || w2 + w3 > 1) continue;
        const near = mixed(seen[a + 2], seen[b + 2], seen[c + 2], w2, w3), pixel = j * N + i;
        if (near <= depth[pixel]) continue;
        depth[pixel] = near;
        const n = [0, 1, 2].map(k => mixed(normals[a + k], normals[b + k], normals[c + k], w2, w3)), length = Math.hypot(...n) || 1;
        const [bright, shine] = shade(n[0] / length, n[1] / length, n[2] / length);
        const row = mixed(...down, w2, w3) * m - 0.5 + m, column = mixed(...along, w2, w3) * m - 0.5 + m;
        const r = Math.floor(row), s = Math.floor(column), v = row - r, u = column - s, to = 4 * pixel;
        const [p, q] = [r % m * m, (r + 1) % m * m], [left, right] = [s % m, (s + 1) % m];
        for (let k = 0; k < 3; k++) {
          const color = (1 - v) * ((1 - u) * colors[3 * (p + left) + k] + u * colors[3 * (p + right) + k])
            + v * ((1 - u) * colors[3 * (q + left) + k] + u * colors[3 * (q + right) + k]);
          image.data[to + k] = color * bright + shine; }
        image.data[to + 3] = 255; } }
  function pearl([x, y, z, ...color]) {  // with a white rim, a little nearer to the eye than its point
    const [right, high, near] = turn(x, y, z), R = 0.02 * N, [cx, cy] = [(0.5 + 0.49 * right) * N, (0.5 - 0.49 * high) * N];
    for (let j = Math.max(0, Math.floor(cy - R)); j <= Math.min(N - 1, cy + R); j++)
      for (let i = Math.max(0, Math.floor(cx - R)); i <= Math.min(N - 1, cx + R); i++) {
        const u = (i + 0.5 - cx) / R, v = (cy - j - 0.5) / R, square = u * u + v * v, w = Math.sqrt(1 - square), pixel = j * N + i;
        if (square >= 1 || near + 0.03 + 0.04 * w <= depth[pixel]) continue;
        depth[pixel] = near + 0.03 + 0.04 * w;
        const [bright, shine] = shade(u, v, w);
        for (let k = 0; k < 3; k++) image.data[4 * pixel + k] = square > 0.72 ? 255 : color[k] * bright + shine;
        image.data[4 * pixel + 3] = 255; } }
  /** A ball of radius 1 over the sheet; colorOf(x, y, z) of a direction. strength: 0 (not there) … 1. */
  function globe(strength, colorOf) {
    const back = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map(axis => turn(...axis)), R = 0.49 * N;
    for (let j = Math.max(0, Math.floor(N / 2 - R)); j <= Math.min(N - 1, N / 2 + R); j++)
      for (let i = Math.max(0, Math.floor(N / 2 - R)); i <= Math.min(N - 1, N / 2 + R); i++) {
        const x = (i + 0.5 - N / 2) / R, y = (N / 2 - j - 0.5) / R, square = x * x + y * y, pixel = j * N + i;
        if (square >= 1) continue;
        const z = Math.sqrt(1 - square), color = colorOf(...back.map(b => b[0] * x + b[1] * y + b[2] * z)), [bright, shine] = shade(x, y, z);
        const to = 4 * pixel, hidden = image.data[to + 3] / 255, share = Math.max(strength, 1 - hidden);
        depth[pixel] = Math.max(depth[pixel], z);
        for (let k = 0; k < 3; k++) image.data[to + k] = mixed(image.data[to + k], Math.min(255, color[k] * bright + shine), 0, share, 0);
        image.data[to + 3] = 255 * Math.max(hidden, strength); } }
  /** points: [rows * columns * 3] in -1 … 1. dots: [x, y, z, red, green, blue]. over: draws what lies over the sheet, by `globe`. */
  return function paint(points, rows, columns, elevation, azimuth, dots = [], over = null) {
    depth.fill(-Infinity); image.data.fill(0);
    project(points, rows, columns, elevation, azimuth);
    for (let r = 0; r + 1 < rows; r++) for (let c = 0; c + 1 < columns; c++) {
      const at = (i, j) => 3 * (i * columns + j), [a, b, d, e] = [at(r, c), at(r, c + 1), at(r + 1, c + 1), at(r + 1, c)];
      const [y, z, x, w] = [r / (rows - 1), (r + 1) / (rows - 1), c / (columns - 1), (c + 1) / (columns - 1)];
      triangle([a, b, d], [y, y, z], [x, w, w]);
      triangle([a, d, e], [y, z, z], [x, w, x]); }
    if (over) over(globe);
    dots.forEach(pearl);
    g.putImageData(image, 0, 0); };
}

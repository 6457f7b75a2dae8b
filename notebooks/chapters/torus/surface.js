// A closed surface in space, lit, that can be turned. Drawn by makeMesh of mesh.js.
(root, data) => {
  const n = data.n, side = 420, bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const given = new Int16Array(bytes(data.points).buffer), points = new Float32Array(3 * (n + 1) ** 2);
  for (let r = 0; r <= n; r++) for (let c = 0; c <= n; c++) for (let i = 0; i < 3; i++)  // it closes on itself
    points[3 * (r * (n + 1) + c) + i] = given[3 * (r % n * n + c % n) + i] / 32767;
  root.textContent = "";
  root.style.cssText = "font:14px sans-serif;color:#222;background:#fff;padding:6px;width:max-content;max-width:100%";
  const canvas = document.createElement("canvas"), note = document.createElement("div");
  canvas.tabIndex = 0;
  canvas.style.cssText = `width:${side}px;max-width:100%;aspect-ratio:1;cursor:grab;touch-action:none`;
  canvas.setAttribute("role", "img"); canvas.setAttribute("aria-label", data.said);
  note.textContent = "Drag to turn, or use the arrow keys.";
  root.append(canvas, note);
  const paint = makeMesh(canvas, side, bytes(data.colors), data.m);
  let { azimuth, elevation } = data;
  const draw = () => paint(points, n + 1, n + 1, elevation, azimuth, data.dots);
  function turn(right, up) {
    azimuth -= right; elevation = Math.max(-90, Math.min(90, elevation + up)); requestAnimationFrame(draw); }
  canvas.onpointerdown = event => canvas.setPointerCapture(event.pointerId);
  canvas.onpointermove = event => { if (event.buttons) turn(event.movementX / 2, event.movementY / 2); };
  canvas.onkeydown = event => {
    const step = { ArrowLeft: [-10, 0], ArrowRight: [10, 0], ArrowUp: [0, 10], ArrowDown: [0, -10] }[event.key];
    if (step) { turn(...step); event.preventDefault(); event.stopPropagation(); } };
  draw();
}

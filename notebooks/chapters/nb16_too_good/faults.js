// Faults to put into a working model: what all combinations of them cost, and what each writes.
(root, W) => {
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag);
    e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  const draw = (tag, parent, facts, text = "") => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(facts)) e.setAttribute(name, value);
    e.textContent = text; parent.append(e); return e; };
  root.textContent = ""; root.style.cssText = "color:#222;background:#fff;font:14px sans-serif;padding:6px;max-width:860px";
  const boxes = W.faults.map(([name, what]) => { const line = make("label", root, "display:block;margin:3px 0;cursor:pointer");
    const box = make("input", line, "margin-right:8px"); box.type = "checkbox"; box.onchange = show;
    make("b", line, "", name); make("span", line, "color:#666", ": " + what); return box; });
  const all = on => () => { boxes.forEach(box => { box.checked = on; }); show(); };
  const buttons = make("div", root, "margin:8px 0");
  make("button", buttons, "margin-right:8px", "no fault").onclick = all(false);
  make("button", buttons, "", "all five").onclick = all(true);
  const losses = Object.values(W.table).map(each => each[0]).concat(Object.values(W.marks)), width = 820;
  const low = Math.log(Math.min(...losses) * 0.95), high = Math.log(Math.max(...losses) * 1.05);
  const at = loss => 20 + (width - 60) * (Math.log(loss) - low) / (high - low);
  const svg = draw("svg", root, { viewBox: `0 0 ${width} 106`, width: "100%", role: "img" });
  draw("line", svg, { x1: 10, x2: width - 30, y1: 72, y2: 72, stroke: "#bbb", "stroke-width": 2 });
  [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100].filter(n => low <= Math.log(n) && Math.log(n) <= high).forEach((n, i, all) =>
    draw("text", svg, { x: at(n), y: 98, "text-anchor": "middle", "font-size": 13, fill: "#666" }, n + (i == all.length - 1 ? " nats" : "")));
  Object.entries(W.marks).forEach(([name, loss], i) => {
    draw("line", svg, { x1: at(loss), x2: at(loss), y1: 22 + 18 * (i % 2), y2: 80, stroke: "#888", "stroke-dasharray": "4 3" });
    draw("text", svg, { x: at(loss), y: 15 + 18 * (i % 2), "text-anchor": "middle", "font-size": 13, fill: "#666" }, name); });
  const dot = draw("circle", svg, { cy: 72, r: 9 }), said = make("div", root, "margin-top:4px;font-weight:bold");
  const sample = make("div", root, "margin-top:4px;font-style:italic");
  said.setAttribute("aria-live", "polite");
  function show() {
    const key = boxes.reduce((sum, box, i) => sum + (box.checked ? 2 ** i : 0), 0);
    const [loss, accuracy, text] = W.table[key], color = W.colors[boxes[0].checked ? 1 : 0];
    dot.setAttribute("cx", at(loss)); dot.setAttribute("fill", color);
    said.style.color = color;
    said.textContent = `the next token costs ${loss.toFixed(2)} nats; ${(100 * accuracy).toFixed(1)} % of first guesses are right`;
    svg.setAttribute("aria-label", said.textContent);
    sample.textContent = "it writes: “" + text + "”"; }
  show();
}

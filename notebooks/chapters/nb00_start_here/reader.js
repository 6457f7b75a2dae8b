// A text to point at: what the chosen head attends to from there, what the model expects next, what came.
(root, data) => {
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag);
    e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  root.textContent = "";
  root.style.cssText = "max-width:60em;color:#222;background:#fff;font:14px sans-serif;padding:8px";
  let run = 0, head = data.head, at = data.query;
  const tint = (rgb, share) => `rgb(${rgb.map(c => Math.round(255 - (255 - c) * Math.min(1, share))).join()})`;
  const bar = (names, said, chosen, choose) => {
    const line = make("div", root, "margin:3px 0"); line.setAttribute("role", "toolbar"); line.setAttribute("aria-label", said);
    make("span", line, "display:inline-block;width:8.5em;color:#666", said);
    names.forEach((name, i) => { const b = make("button", line, "margin:2px;padding:2px 8px;cursor:pointer;font:13px sans-serif", name);
      b.onclick = () => { choose(i); draw(); }; });
    return () => [...line.querySelectorAll("button")].forEach((b, i) => { const on = i === chosen();
      b.setAttribute("aria-pressed", on); b.style.outline = on ? "2px solid #d55e00" : "none"; }); };
  const runs = bar(data.runs.map(r => r.name), "ablate", () => run, i => { run = i; });
  const heads = bar(["the loss", ...data.heads], "color shows", () => head + 1, i => { head = i - 1; });
  const text = make("div", root, "margin:10px 0;font:17px/1.9 monospace;overflow-wrap:anywhere");
  const said = make("div", root, "min-height:2.8em"); said.setAttribute("aria-live", "polite");
  const spans = data.tokens.map((token, i) => {
    if (i > 0 && /^ Then$/.test(token)) make("br", text);
    const s = make("span", text, "padding:2px 0;cursor:pointer;white-space:pre-wrap;border-radius:2px", i ? token : "▸");
    s.tabIndex = 0; s.onmouseenter = s.onclick = s.onfocus = () => { at = i; draw(); }; return s; });
  function draw() {
    const { loss, expected, attends } = data.runs[run], weights = new Map(head < 0 ? [] : attends[head][at]);
    spans.forEach((s, i) => { const l = i ? loss[i - 1] / data.most : 0, w = weights.get(i) || 0;
      s.style.background = head < 0 ? tint([213, 94, 0], l) : tint([123, 63, 153], w / 100);
      s.style.color = (head < 0 ? l > 0.8 : w > 55) ? "#fff" : head >= 0 && i > at ? "#aaa" : "#222";
      s.style.outline = i === at ? "2px solid #d55e00" : "none"; });
    const show = t => `“${t}”`, next = expected[at].map(([t, p]) => `${show(t)} ${p}`).join(", ");
    const came = at + 1 < spans.length ? ` What came: ${show(data.tokens[at + 1])}, loss ${loss[at].toFixed(2)} nats.` : "";
    said.textContent = `After ${at ? show(data.tokens[at]) : "the beginning"} the model expects ${next}.${came}`;
    runs(); heads(); }
  draw();
}

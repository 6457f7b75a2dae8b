// A text to point at: what the chosen head attends to from there, what the model expects next, what came.
(root, data) => {
  const make = (tag, parent, style = "", text = "") => { const e = document.createElement(tag);
    e.style.cssText = style; e.textContent = text; parent.append(e); return e; };
  root.textContent = "";
  root.style.cssText = "max-width:60em;color:#222;background:#fff;font:14px sans-serif;padding:8px";
  let run = 0, head = data.head, at = data.query;
  const tint = (rgb, share) => `rgb(${rgb.map(c => Math.round(255 - (255 - c) * Math.min(1, share))).join()})`;
  const bar = (names, said, chosen, choose) => {
    const line = make("div", root, "display:flex;flex-wrap:wrap;gap:2px 6px;margin:6px 0");
    make("span", line, "flex:0 0 6.5em;color:#666;line-height:34px", said);
    const buttons = make("div", line, "flex:1 1 17em;display:flex;flex-wrap:wrap;gap:6px");
    buttons.setAttribute("role", "toolbar"); buttons.setAttribute("aria-label", said);
    names.forEach((name, i) => { const b = make("button", buttons, "", name);
      b.onclick = () => { choose(i); draw(); }; });
    return () => [...buttons.children].forEach((b, i) => b.setAttribute("aria-pressed", i === chosen())); };
  const runs = bar(data.runs.map(r => r.name), "ablate", () => run, i => { run = i; });
  const heads = bar(["the loss", ...data.heads], "color shows", () => head + 1, i => { head = i - 1; });
  const text = make("div", root, "margin:10px 0;font:17px/1.9 monospace;overflow-wrap:anywhere");
  text.tabIndex = 0; text.setAttribute("role", "group"); text.setAttribute("aria-label", "The text, token by token");
  const said = make("div", root, "min-height:2.8em"); said.setAttribute("aria-live", "polite");
  const hint = make("div", root, "color:#666;font-size:13px");
  let pinned = false;
  const spans = data.tokens.map((token, i) => {
    if (i > 0 && /^ Then$/.test(token)) make("br", text);
    const s = make("span", text, "padding:2px 0;cursor:pointer;white-space:pre-wrap;border-radius:2px", i ? token : "▸");
    s.onmouseenter = () => { if (!pinned) { at = i; draw(); } };
    s.onclick = () => { pinned = !(pinned && at === i); at = i; draw(); };
    return s; });
  text.onkeydown = event => {
    const way = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (way) at = Math.max(0, Math.min(spans.length - 1, at + way));
    else if (event.key === "Enter" || event.key === " ") pinned = !pinned;
    else return;
    event.preventDefault(); draw(); };
  function draw() {
    const { loss, expected, attends } = data.runs[run], weights = new Map(head < 0 ? [] : attends[head][at]);
    spans.forEach((s, i) => { const l = i ? loss[i - 1] / data.most : 0, w = weights.get(i) || 0;
      s.style.background = head < 0 ? tint([213, 94, 0], l) : tint([123, 63, 153], w / 100);
      s.style.color = (head < 0 ? l > 0.8 : w > 55) ? "#fff" : head >= 0 && i > at ? "#767676" : "#222";
      s.style.outline = i === at ? "2px solid #d55e00" : "none"; });
    const show = t => `“${t}”`, next = expected[at].map(([t, p]) => `${show(t)} ${p}`).join(", ");
    const came = at + 1 < spans.length ? ` What came: ${show(data.named[at + 1])}, loss ${loss[at].toFixed(2)} nats.` : "";
    said.textContent = `After ${at ? show(data.named[at]) : "the beginning"} the model expects ${next}.${came}`;
    hint.textContent = pinned ? "Pinned; arrow keys move it, a click or Enter lets it go." : "Point at a token; a click or Enter pins it, arrow keys move it.";
    runs(); heads(); }
  draw();
}

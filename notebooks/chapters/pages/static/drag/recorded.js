// One text of a training, measured before: the source of the view in a notebook.
(root, data) => {
  const n = data.tokens.length + 1, size = (n * (n + 1)) / 2, bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  function pattern(packed, which) {
    const full = new Float32Array(n * n);
    for (let i = 0, at = which * size; i < n; i++) for (let j = 0; j <= i; j++) full[i * n + j] = packed[at++] / 255;
    return full;
  }
  const [previous, induction] = [bytes(data.previous), bytes(data.induction)], style = document.createElement("style"), inside = document.createElement("div");
  const at = (k, state) => ({ p: data.p[k][state], guesses: data.guesses[k][state], previous: pattern(previous, k), induction: pattern(induction, 4 * k + state) });
  style.textContent = STYLE;
  root.replaceChildren(style, inside);
  mountTraining(inside, { steps: data.steps, name: data.name, heads: data.heads, reading: { tokens: data.tokens, spans: data.spans, at } });
}

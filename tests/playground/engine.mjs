// Runs the playground's engine on what stands on standard input, for tests/test_playground.py:
// {"gradients": [case]} with weights and tokens to loss, gradients, three updates and logits;
// {"train": [{settings, limit}]} to the step at which 90 % are copied, and the share at the end.
import { readFileSync } from "node:fs";
const parts = new URL("../../aot_helpers/showing/static/playground/", import.meta.url);
const wanted = "makeModel forward backward update trainStep makeProbe measure toTokens uniformNumbers toSafetensors putWeights";
const engine = (0, eval)(`(() => {${readFileSync(new URL("engine.js", parts), "utf8")}\nreturn { ${wanted.split(" ").join(", ")} }; })()`);
const wasm = new WebAssembly.Module(readFileSync(new URL("kernels.wasm", parts)));
const story = engine.toTokens(readFileSync(new URL("story.txt", parts), "utf8").trim());

const all = (model, from) => Object.fromEntries(model.parameters.map((w) => [w.name, Array.from(model.heap.M.subarray(w[from], w[from] + w.size))]));

function gradients({ settings, tokens, weights, kernels }) {
  const model = engine.makeModel({ ...settings, batch: tokens.length }, kernels === "wasm" ? wasm : null), { M } = model.heap, n = tokens[0].length - 1;
  for (const w of model.parameters) M.set(weights[w.name], w.at);
  const inputs = tokens.flatMap((row) => row.slice(0, -1)), targets = tokens.flatMap((row) => row.slice(1));
  const step = () => { engine.forward(model, inputs, tokens.length, n); return engine.backward(model, inputs, targets, tokens.length, n); };
  const loss = step(), found = all(model, "grad");
  engine.forward(model, inputs, tokens.length, n);
  const probabilities = Array.from(M.subarray(model.probs, model.probs + inputs.length * 64));
  for (let i = 0; i < 3; i++) { step(); engine.update(model); }
  return { loss, gradients: found, probabilities, after: all(model, "at") };
}

function train({ settings, limit }) {
  const model = engine.makeModel(settings, wasm), probe = engine.makeProbe(model), uniform = engine.uniformNumbers(model.config.seed + 1000);
  for (let step = 0; ; step++) {
    const { copied } = step % 10 ? {} : engine.measure(model, probe);
    if (copied >= 0.9 || step >= limit) return { at: copied >= 0.9 ? step : null, copied: copied ?? engine.measure(model, probe).copied, file: Buffer.from(engine.toSafetensors(model)).toString("base64"), ...last(model, probe) };
    engine.trainStep(model, story, uniform);
  }
}

/** What the engine says of its own probe: the tokens, and the probability of every letter after each. */
function last(model, { tokens, rows, n }) {
  engine.forward(model, tokens, rows, n);
  return { tokens, rows, probabilities: Array.from(model.heap.M.subarray(model.probs, model.probs + rows * n * 64)) };
}

const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({ gradients: (asked.gradients ?? []).map(gradients), train: (asked.train ?? []).map(train) }));

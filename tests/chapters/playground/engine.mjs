// Runs the playground's engine on what stands on standard input, for tests/chapters/test_pages_playground.py and tools/playground.py:
// {"gradients": [case]} with weights and tokens to loss, gradients, three updates and probabilities;
// {"train": [run]} to what came of each run, see train.
import { readFileSync } from "node:fs";
const parts = new URL("../../../notebooks/chapters/pages/static/playground/", import.meta.url);
const wanted = "makeModel forward backward update trainStep makeProbe measure toTokens uniformNumbers toSafetensors LETTERS BOS D_VOCAB";
const engine = (0, eval)(`(() => {${readFileSync(new URL("engine.js", parts), "utf8")}\nreturn { ${wanted.split(" ").join(", ")} }; })()`);
const kernels = process.env.KERNELS ?? new URL("kernels.wasm", parts);
const wasm = new WebAssembly.Module(readFileSync(kernels));
const storyText = readFileSync(new URL("story.txt", parts), "utf8").trim(), story = engine.toTokens(storyText);

const all = (model, from) => Object.fromEntries(model.parameters.map((w) => [w.name, Array.from(model.heap.M.subarray(w[from], w[from] + w.size))]));

function gradients({ settings, tokens, weights, kernels }) {
  const model = engine.makeModel({ ...settings, batch: tokens.length }, kernels === "wasm" ? wasm : null), { M } = model.heap, n = tokens[0].length - 1;
  for (const w of model.parameters) M.set(weights[w.name], w.at);
  const inputs = tokens.flatMap((row) => row.slice(0, -1)), targets = tokens.flatMap((row) => row.slice(1));
  const step = () => { engine.forward(model, inputs, tokens.length, n); return engine.backward(model, inputs, targets, tokens.length, n); };
  const loss = step(), found = all(model, "grad");
  engine.forward(model, inputs, tokens.length, n);
  const probabilities = Array.from(M.subarray(model.probs, model.probs + inputs.length * engine.D_VOCAB));
  for (let i = 0; i < 3; i++) { step(); engine.update(model); }
  return { loss, gradients: found, probabilities, after: all(model, "at") };
}

/**
 * Trains until 90 % are copied and `after` steps more, or to `limit`. Measures every five steps, as the page does.
 * Asks: `film` (steps at which patterns are kept), `names` (a step at which made-up names are tried early), `ablate`, `file`,
 * `cool` (steps more at a tenth of the rates, after which the first copy's loss is measured again), `curve` (of losses and
 * the share copied), or only when 90 % were copied (`brief`).
 */
function train({ settings, limit, after = 0, film, names, ablate, file, cool, curve, brief }) {
  const model = engine.makeModel(settings, wasm), probe = engine.makeProbe(model), uniform = engine.uniformNumbers(model.config.seed + 1000);
  const run = { at: null, change: null, curve: [] };
  if (film) run.film = [];
  for (let step = 0; ; step++) {
    if (step === names) run.namesEarly = namesCopied(model);
    if (step % 5 === 0) {
      const { first, second, copied, scores } = engine.measure(model, probe);
      run.curve.push([step, first, second, copied]);
      if (run.change === null && second <= 0.6 * first) run.change = step;
      if (run.at === null && copied >= 0.9) run.at = step;
      Object.assign(run, { first, copied, scores, wasted: wasted(model, probe) });
      if (film?.includes(step)) run.film.push(patternsOf(model, probe));
    }
    if (step >= limit || (run.at !== null && step >= run.at + after)) break;
    engine.trainStep(model, story, uniform);
  }
  if (brief) return { at: run.at, change: run.change };
  if (!curve) delete run.curve;
  if (names !== undefined) run.names = namesCopied(model);
  if (ablate) Object.assign(run, ablations(model, probe, names !== undefined));
  if (cool) {
    for (const rate of ["rate", "rateHeads", "rateRelative"]) model.config[rate] /= 10;
    for (let i = 0; i < cool; i++) engine.trainStep(model, story, uniform);
    run.cooled = engine.measure(model, probe).first;
  }
  if (file) Object.assign(run, { file: Buffer.from(engine.toSafetensors(model)).toString("base64"), ...last(model, probe) });
  return run;
}

/** What the engine says of its own probe: the tokens, and the probability of every letter after each. */
function last(model, { tokens, rows, n }) {
  engine.forward(model, tokens, rows, n);
  return { tokens, rows, probabilities: Array.from(model.heap.M.subarray(model.probs, model.probs + rows * n * engine.D_VOCAB)) };
}

/** In first copies, where no letter comes twice: the mean probability of the letters that were already read, after the last measure. */
function wasted({ heap: { M }, probs }, { tokens, rows, n, length }) {
  let sum = 0;
  for (let b = 0; b < rows; b++) for (let i = 0; i < length; i++) for (let j = 1; j <= i; j++) sum += M[probs + (b * n + i) * engine.D_VOCAB + tokens[b * n + j]];
  return sum / rows / length;
}

/** The patterns of the first probe, head by head, as whole numbers from 0 to 255. */
function patternsOf({ config: c, heap: { M }, layers }, { n }) {
  return layers.map(({ pattern }) => Array.from({ length: c.nHeads }, (_, h) => Array.from(M.subarray(pattern + h * n * n, pattern + (h + 1) * n * n), (share) => Math.round(255 * share))));
}

/** The share copied without sets of heads. */
function ablations(model, probe, names) {
  const { scores } = engine.measure(model, probe), [low, high] = [scores[0], scores[scores.length - 1]], top = scores.length - 1;
  const off = (layer, heads, how = "zero") => new Map(heads.map((h) => [`L${layer}H${h}`, how])), which = (row, kind, above) => row.flatMap((s, h) => (s[kind] > above ? [h] : []));
  const without = (layer, heads, how) => engine.measure(model, probe, off(layer, heads, how)).copied, induction = which(high, "induction", 0.5);
  return {
    induction, withoutEach: high.map((_, h) => without(top, [h])), withoutInduction: without(top, induction), withoutInductionMean: without(top, induction, "mean"),
    withoutPrevious: without(0, which(low, "previous", 0.3)), ...(names && { namesWithout: namesCopied(model, off(top, induction)) }),
  };
}

/** Of 100 made-up names of two words, none of them in the stories, the share of letters guessed at the second mention, without the first letter. */
function namesCopied(model, ablated = new Map()) {
  const uniform = engine.uniformNumbers(77), pick = (letters) => letters[Math.floor(uniform() * letters.length)];
  const word = () => { for (;;) { let w = ""; for (let i = 0; i < 5; i++) w += pick(i % 2 ? "aeiou" : "bcdfghjklmnpqrstvwxz"); w = w[0].toUpperCase() + w.slice(1, 4 + Math.floor(2 * uniform())); if (!storyText.includes(w)) return w; } };
  let right = 0, asked = 0;
  for (let i = 0; i < 100; i++) {
    const name = `${word()} ${word()}`, tokens = [engine.BOS, ...engine.toTokens(`${name} met me. ${name}`)], n = tokens.length;
    engine.forward(model, tokens, 1, n, ablated);
    for (let j = n - name.length; j < n - 1; j++) {
      const p = model.heap.M.subarray(model.probs + j * engine.D_VOCAB, model.probs + (j + 1) * engine.D_VOCAB);
      right += p.indexOf(Math.max(...p)) === tokens[j + 1];
      asked++;
    }
  }
  return right / asked;
}

const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({ gradients: (asked.gradients ?? []).map(gradients), train: (asked.train ?? []).map(train) }));

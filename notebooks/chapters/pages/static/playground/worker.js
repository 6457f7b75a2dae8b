// Trains in a Web Worker as the page commands, and posts what there is to see. Every command and
// every message has the number of its run, so that the page knows what came too late.
// The build puts engine.js, STORY and KERNELS (base64 of kernels.wasm) before this.

const bytesOf = (base64) => Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
const wasmModule = (() => { try { return new WebAssembly.Module(bytesOf(KERNELS)); } catch { return null; } })();  // without SIMD: plain JavaScript
const text = toTokens(STORY), wakeUp = new MessageChannel();
const AFTER = 60, FURTHER = 500;  // steps to train after 90 % are copied, and when the reader says "go on"
let run, model, probe, uniform, ablated = new Map(), letters = [], saved = new Map(), present = null, marks, end, playing = false, awaited = false, limit = Infinity, due = 0, lastPost = 0, msPerStep = 0;

const commands = {
  /** A new model. until: the step at which training ends, if it does not copy before. */
  reset({ settings, until }) {
    model = makeModel(settings, wasmModule);
    probe = makeProbe(model);
    uniform = uniformNumbers(model.config.seed + 1000);
    ablated = new Map();
    saved = new Map([[0, copyWeights(model)]]);
    present = null;
    marks = { change: null, copied: null };
    end = until;
    playing = false;
    msPerStep = 0;
    post();
  },
  play() {
    goOn();
    if (model.step >= end) end = model.step + FURTHER;
    playing = true;
    due = performance.now();
    soon();
  },
  pause() { playing = false; post(); },
  step() { goOn(); playing = false; takeStep(); post(); },
  speed({ stepsPerSecond }) { limit = stepsPerSecond; due = performance.now(); },
  ablate({ heads }) { ablated = new Map(heads); post(); },
  read({ letters: typed }) { letters = typed; post(); },
  /** Shows the model as it was at the saved step nearest to one. */
  visit({ step }) {
    playing = false;
    present ??= { step: model.step, weights: copyWeights(model) };
    const steps = [...saved.keys(), present.step], nearest = steps.reduce((a, b) => (Math.abs(b - step) < Math.abs(a - step) ? b : a));
    putWeights(model, saved.get(nearest) ?? present.weights);
    post(nearest);
  },
  /** Sends the weights that are shown, as a safetensors file. */
  export() { self.postMessage({ run, file: toSafetensors(model), step: model.step, seed: model.config.seed }); },
};
self.onmessage = ({ data }) => { run = data.run; commands[data.command](data); };
wakeUp.port1.onmessage = turn;

/** One turn, after the page's commands; never two in a row of their own. */
function soon(wait = 0) {
  if (awaited) return;
  awaited = true;
  if (wait > 2) setTimeout(turn, wait); else wakeUp.port2.postMessage(0);
}

/** A step if one is due, news if some are due, and then the turn of the page's commands. */
function turn() {
  awaited = false;
  if (!playing) return;
  const now = performance.now();
  if (now >= due) {
    takeStep();
    due = Math.max(due + 1000 / limit, now - 50);  // what is missed by more than 50 ms is not caught up
    if (model.step >= end) {
      playing = false;
      return post(null, marks.copied === null ? {} : measureHeads());
    }
  }
  if (performance.now() - lastPost > 25) post();
  soon(due - performance.now());
}

/** Back from a visited step to where training stands. */
function goOn() {
  if (present) putWeights(model, present.weights);
  present = null;
}

/** Keeps the weights every 10 steps; of more than 100 every second one goes, so that the film stays even. */
function keep() {
  const apart = 10 * 2 ** Math.max(0, Math.ceil(Math.log2(model.step / 1000)));
  if (model.step % apart) return;
  saved.set(model.step, copyWeights(model));
  for (const step of [...saved.keys()]) if (step % apart) saved.delete(step);
}

const CHANGE = 0.6, COPIED = 0.9;  // second copy's loss as a share of the first's; share of letters copied

/** Looks at every fifth step for the change and for 90 % copied, so that a run has the same marks whenever it is seen. */
function mark() {
  if (marks.copied !== null || model.step % 5) return;
  const { first, second, copied } = measure(model, probe);
  if (marks.change === null && second <= CHANGE * first) marks.change = model.step;
  if (copied >= COPIED) [marks.copied, end] = [model.step, model.step + AFTER];
}

/** What is copied without each head alone, [layer][head], and without all heads with an induction score above 0.5. */
function measureHeads() {
  const without = (heads) => measure(model, probe, new Map(heads.map((head) => [head, "zero"]))).copied;
  const { scores } = measure(model, probe), all = scores.flatMap((row, l) => row.map(({ induction }, h) => ({ name: `L${l}H${h}`, induction })));
  const labeled = all.filter((head) => head.induction > 0.5).map((head) => head.name);
  return { each: all.map(({ name }) => ({ name, left: without([name]) })), induction: labeled, together: without(labeled) };
}

function takeStep() {
  const started = performance.now();
  trainStep(model, text, uniform);
  keep();
  mark();
  const ms = performance.now() - started;
  msPerStep = msPerStep ? 0.95 * msPerStep + 0.05 * ms : ms;
}

/**
 * Posts the losses and scores of the whole model, and of the model without the ablated heads what is copied, its
 * patterns on the first probe, what is guessed there and of the typed text. ended: said once, when training has ended.
 */
function post(visited, ended = null) {
  const whole = measure(model, probe), seen = ablated.size ? measure(model, probe, ablated) : whole;
  const { n } = probe, patterns = patternsOf(n), guesses = guessesOf(probe.tokens.slice(0, n), n);
  const reading = letters.length ? read() : null;
  lastPost = performance.now();
  self.postMessage({ run, step: visited ?? model.step, newest: model.step, change: marks.change, copiedAt: marks.copied, config: model.config, ...seen, whole, ablated: [...ablated.keys()], ended, n, length: probe.length, patterns, guesses, reading, msPerStep, simd: !!wasmModule });
}

/** The patterns of all heads, layer by layer, on the first text of the last forward. */
function patternsOf(n) {
  const { config: c, heap: { M }, layers } = model, size = c.nHeads * n * n, all = new Float32Array(layers.length * size);
  layers.forEach(({ pattern }, l) => all.set(M.subarray(pattern, pattern + size), l * size));
  return all;
}

/** For every token after the first: its letter, its surprise (nats) and the model's best guess. */
function guessesOf(tokens, n) {
  const { heap: { M }, probs } = model;
  return tokens.slice(1, n).map((token, i) => {
    const p = M.subarray(probs + i * D_VOCAB, probs + (i + 1) * D_VOCAB);
    return { letter: toLetter(token), surprise: -Math.log(Math.max(p[token], 1e-30)), guess: toLetter(p.indexOf(Math.max(...p))) };
  });
}

function read() {
  const tokens = [BOS, ...toTokens(letters)].slice(0, model.config.nCtx), n = tokens.length;
  forward(model, tokens, 1, n, ablated);
  return { n, guesses: guessesOf(tokens, n), patterns: patternsOf(n) };
}

// An attention-only transformer and its training, on one heap of 32-bit floats.
// A tensor is the index on the heap M at which it begins; its shape is written where it is made.

const LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,'\"-!?;:(";  // tokens 1 to 63
const BOS = 0, D_VOCAB = LETTERS.length + 1;
const DEFAULTS = {
  nLayers: 2, nHeads: 4, dModel: 64, dHead: 16, nCtx: 48, batch: 16, positions: "relative", smearedKeys: false,
  tiedStart: false, looksBackStart: false, repeatShare: 1, randomShare: 0.7, shortest: 4, longest: 23, smearStart: 0, seed: 1,
  rate: 0.02, rateHeads: 0.03, rateRelative: 0.1, warmup: 20, clipNorm: 1, beta1: 0.9, beta2: 0.98, optimizer: "muon",
};

// ---- Numbers -------------------------------------------------------------------------------

/** Uniform numbers in [0, 1), the same for the same seed (mulberry32). */
function uniformNumbers(seed) {
  let a = (seed * 2654435761) >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Nearly normal numbers: sums of twelve uniform ones. Only plus and times, which are alike in all browsers, so that a link replays a run. */
function fillNormal(values, scale, uniform) {
  for (let i = 0; i < values.length; i++) {
    let sum = -6;
    for (let j = 0; j < 12; j++) sum += uniform();
    values[i] = scale * sum;
  }
}

/** A heap and the two kernels that take nearly all the time: products of matrices, and softmax. */
function makeHeap(wasmModule, megabytes = 48) {
  let used = 16384;  // floats; the first 64 kB are the kernels' own
  const memory = wasmModule ? new WebAssembly.Memory({ initial: megabytes * 16 }) : null;
  const M = new Float32Array(memory ? memory.buffer : new ArrayBuffer(megabytes << 20));
  const alloc = (n) => { const at = used; used += (n + 3) & ~3; if (used > M.length) throw new Error("the heap is full"); return at; };
  const kernels = wasmModule ? wasmKernels(new WebAssembly.Instance(wasmModule, { env: { memory } }).exports) : plainKernels(M);
  return { M, alloc, ...kernels };
}

/** gemm: C [n, m] = alpha A [n, k] B [k, m] + beta C, with the strides of rows and columns. */
function wasmKernels({ gemm, softmax }) {
  return {
    gemm: (n, m, k, A, ar, ac, B, br, bc, C, cr, alpha = 1, beta = 0) => gemm(n, m, k, A << 2, ar, ac, B << 2, br, bc, C << 2, cr, alpha, beta),
    softmax: (x, rows, columns, causal) => softmax(x << 2, rows, columns, causal ? 1 : 0),
  };
}

function plainKernels(M) {
  const dots = (n, m, k, A, ar, ac, B, br, bc, C, cr, alpha, beta, i0, j0) => {  // the rim that blocks of 4 leave
    for (let i = i0; i < n; i++) for (let j = j0; j < m; j++) {
      let sum = 0;
      for (let p = 0; p < k; p++) sum += M[A + i * ar + p * ac] * M[B + p * br + j * bc];
      const c = C + i * cr + j;
      M[c] = alpha * sum + (beta ? beta * M[c] : 0);
    }
  };
  const gemm = (n, m, k, A, ar, ac, B, br, bc, C, cr, alpha = 1, beta = 0) => {
    const n4 = n & ~3, m4 = m & ~3;
    for (let i = 0; i < n4; i += 4) for (let j = 0; j < m4; j += 4) {
      let s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
      let s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
      for (let p = 0, a = A + i * ar, b = B + j * bc; p < k; p++, a += ac, b += br) {
        const b0 = M[b], b1 = M[b + bc], b2 = M[b + 2 * bc], b3 = M[b + 3 * bc];
        const a0 = M[a], a1 = M[a + ar], a2 = M[a + 2 * ar], a3 = M[a + 3 * ar];
        s00 += a0 * b0; s01 += a0 * b1; s02 += a0 * b2; s03 += a0 * b3;
        s10 += a1 * b0; s11 += a1 * b1; s12 += a1 * b2; s13 += a1 * b3;
        s20 += a2 * b0; s21 += a2 * b1; s22 += a2 * b2; s23 += a2 * b3;
        s30 += a3 * b0; s31 += a3 * b1; s32 += a3 * b2; s33 += a3 * b3;
      }
      for (let r = 0, c = C + i * cr + j; r < 4; r++, c += cr) {
        const t = r < 2 ? (r ? [s10, s11, s12, s13] : [s00, s01, s02, s03]) : r < 3 ? [s20, s21, s22, s23] : [s30, s31, s32, s33];
        for (let q = 0; q < 4; q++) M[c + q] = alpha * t[q] + (beta ? beta * M[c + q] : 0);
      }
    }
    if (m4 < m) dots(n4, m, k, A, ar, ac, B, br, bc, C, cr, alpha, beta, 0, m4);
    if (n4 < n) dots(n, m, k, A, ar, ac, B, br, bc, C, cr, alpha, beta, n4, 0);
  };
  const softmax = (x, rows, columns, causal) => {
    for (let i = 0; i < rows; i++, x += columns) {
      const n = causal ? i + 1 : columns;
      let high = -Infinity, sum = 0;
      for (let j = 0; j < n; j++) if (M[x + j] > high) high = M[x + j];
      for (let j = 0; j < n; j++) sum += M[x + j] = Math.exp(M[x + j] - high);
      for (let j = 0; j < n; j++) M[x + j] /= sum;
      for (let j = n; j < columns; j++) M[x + j] = 0;
    }
  };
  return { gemm, softmax };
}

// ---- Model ---------------------------------------------------------------------------------

/** A new model with random weights, room for activations and gradients. */
function makeModel(settings, wasmModule) {
  const c = { ...DEFAULTS, ...settings }, heap = makeHeap(wasmModule), { alloc } = heap;
  const E = c.nHeads * c.dHead, T = c.batch * c.nCtx, uniform = uniformNumbers(c.seed);
  const model = { config: c, heap, W: {}, parameters: [], step: 0, powers: [1, 1], E };
  const add = (name, kind, rows, columns, scale) => {
    const size = rows * columns, w = { name, kind, rows, columns, size, at: alloc(size), grad: alloc(size), m: alloc(size), v: alloc(size) };
    fillNormal(heap.M.subarray(w.at, w.at + size), scale, uniform);
    model.parameters.push(w);
    return (model.W[name] = w);
  };
  add("W_E", "other", D_VOCAB, c.dModel, 0.3);
  if (c.positions === "standard") add("W_pos", "other", c.nCtx, c.dModel, 0.3);
  for (let l = 0; l < c.nLayers; l++) {
    for (const name of ["W_Q", "W_K", "W_V"]) add(`L${l}.${name}`, "heads", c.dModel, E, 1 / Math.sqrt(c.dModel));
    add(`L${l}.W_O`, "heads", E, c.dModel, 1 / Math.sqrt(E * 2 * c.nLayers));
    if (c.positions === "relative") add(`L${l}.b_rel`, "relative", c.nHeads, c.nCtx, 0);
    if (c.smearedKeys) {
      const smear = add(`L${l}.smear`, "other", c.nHeads, 1, 0);
      heap.M.fill(c.smearStart, smear.at, smear.at + smear.size);
    }
  }
  add("W_U", "other", c.dModel, D_VOCAB, 1 / Math.sqrt(c.dModel));
  giveStarts(model);
  const square = c.batch * c.nHeads * c.nCtx * c.nCtx;
  model.layers = Array.from({ length: c.nLayers }, () => ({
    x: alloc(T * c.dModel), q: alloc(T * E), k: alloc(T * E), smeared: alloc(T * E), v: alloc(T * E), z: alloc(T * E), pattern: alloc(square),
  }));
  for (const [name, size] of [["x", T * c.dModel], ["dx", T * c.dModel], ["probs", T * D_VOCAB], ["dq", T * E], ["dk", T * E], ["dv", T * E],
    ["dz", T * E], ["dScores", c.nCtx * c.nCtx], ["X", 512 * 64], ["XX", 64 * 64], ["P", 64 * 64], ["Y", 512 * 64], ["pair", 4]]) model[name] = alloc(size);
  model.losses = new Float32Array(T);
  model.means = Array.from({ length: c.nLayers * c.nHeads }, () => new Float32Array(c.dHead));  // of z, on the probe: what mean ablation writes
  return model;
}

/** The given starts: W_U as W_E's transpose; head h of layer 0 looks h tokens back. */
function giveStarts({ config: c, heap: { M }, W }) {
  if (c.tiedStart) for (let t = 0; t < D_VOCAB; t++) for (let i = 0; i < c.dModel; i++)
    M[W.W_U.at + i * D_VOCAB + t] = M[W.W_E.at + t * c.dModel + i] / 0.3 / Math.sqrt(c.dModel);
  if (c.looksBackStart && W["L0.b_rel"]) for (let h = 0; h < c.nHeads; h++) M[W["L0.b_rel"].at + h * c.nCtx + h] += 3;
}

/** Logits, as probabilities, at every position of tokens [batch, n]; `ablated` maps names like "L1H3" to "zero" or "mean". */
function forward(model, tokens, batch, n, ablated = new Map()) {
  const { config: c, heap: { M, gemm, softmax }, W, E } = model, d = c.dModel, T = batch * n;
  for (let t = 0; t < T; t++) for (let i = 0; i < d; i++)
    M[model.x + t * d + i] = M[W.W_E.at + tokens[t] * d + i] + (W.W_pos ? M[W.W_pos.at + (t % n) * d + i] : 0);
  for (let l = 0; l < c.nLayers; l++) {
    const layer = model.layers[l], of = (name) => W[`L${l}.${name}`];
    M.copyWithin(layer.x, model.x, model.x + T * d);
    for (const [name, to] of [["W_Q", layer.q], ["W_K", layer.k], ["W_V", layer.v]]) gemm(T, E, d, layer.x, d, 1, of(name).at, E, 1, to, E);
    if (c.smearedKeys) smearKeys(model, layer, of("smear"), T, n);
    const keys = c.smearedKeys ? layer.smeared : layer.k;
    for (let b = 0; b < batch; b++) for (let h = 0; h < c.nHeads; h++) {
      const here = b * n * E + h * c.dHead, pattern = layer.pattern + (b * c.nHeads + h) * n * n;
      gemm(n, n, c.dHead, layer.q + here, E, 1, keys + here, 1, E, pattern, n, 1 / Math.sqrt(c.dHead));
      if (of("b_rel")) for (let i = 0, bias = of("b_rel").at + h * c.nCtx; i < n; i++) for (let j = 0; j <= i; j++) M[pattern + i * n + j] += M[bias + i - j];
      softmax(pattern, n, n, true);
      gemm(n, c.dHead, n, pattern, n, 1, layer.v + here, E, 1, layer.z + here, E);
      const how = ablated.get(`L${l}H${h}`), mean = model.means[l * c.nHeads + h];
      if (how) for (let i = 0; i < n; i++) for (let e = 0; e < c.dHead; e++) M[layer.z + here + i * E + e] = how === "mean" ? mean[e] : 0;
    }
    gemm(T, d, E, layer.z, E, 1, of("W_O").at, d, 1, model.x, d, 1, 1);
  }
  gemm(T, D_VOCAB, d, model.x, d, 1, W.W_U.at, D_VOCAB, 1, model.probs, D_VOCAB);
  softmax(model.probs, T, D_VOCAB, false);
}

/** Each key mixed with the key before it; sigmoid(smear) is a key's own share. */
function smearKeys({ config: c, heap, heap: { M }, E, pair }, layer, smear, T, n) {
  const shares = ownShares(c, heap, smear, pair);
  for (let t = 0; t < T; t++) for (let e = 0; e < E; e++) {
    const own = shares[(e / c.dHead) | 0], k = layer.k + t * E + e, before = t % n ? k - E : k;
    M[layer.smeared + t * E + e] = M[before] + own * (M[k] - M[before]);
  }
}

/** sigmoid(smear) for each head, as the softmax of smear and 0. */
function ownShares({ nHeads }, { M, softmax }, smear, pair) {
  return Array.from({ length: nHeads }, (_, h) => { M[pair] = M[smear.at + h]; M[pair + 1] = 0; softmax(pair, 1, 2, false); return M[pair]; });
}

/** Gradients of the mean loss (nats) of `targets`, after forward; returns that loss. */
function backward(model, tokens, targets, batch, n) {
  const { config: c, heap: { M, gemm }, W, E } = model, d = c.dModel, T = batch * n;
  for (const w of model.parameters) M.fill(0, w.grad, w.grad + w.size);
  const loss = measureLosses(model, targets, T);
  for (let t = 0; t < T; t++) M[model.probs + t * D_VOCAB + targets[t]] -= 1;  // now T times the gradient of the logits
  gemm(d, D_VOCAB, T, model.x, 1, d, model.probs, D_VOCAB, 1, W.W_U.grad, D_VOCAB, 1 / T);
  gemm(T, d, D_VOCAB, model.probs, D_VOCAB, 1, W.W_U.at, 1, D_VOCAB, model.dx, d, 1 / T);
  for (let l = c.nLayers - 1; l >= 0; l--) backwardThroughHeads(model, l, batch, n);
  for (let t = 0; t < T; t++) for (let i = 0; i < d; i++) {
    M[W.W_E.grad + tokens[t] * d + i] += M[model.dx + t * d + i];
    if (W.W_pos) M[W.W_pos.grad + (t % n) * d + i] += M[model.dx + t * d + i];
  }
  return loss;
}

function measureLosses({ heap: { M }, probs, losses }, targets, T) {
  let sum = 0;
  for (let t = 0; t < T; t++) sum += losses[t] = -Math.log(Math.max(M[probs + t * D_VOCAB + targets[t]], 1e-30));
  return sum / T;
}

/** One layer: the gradients of its weights, and dx from after the layer to before it. */
function backwardThroughHeads(model, l, batch, n) {
  const { config: c, heap: { M, gemm }, W, E, dx, dq, dk, dv, dz, dScores } = model, d = c.dModel, T = batch * n, e = c.dHead;
  const layer = model.layers[l], of = (name) => W[`L${l}.${name}`], bias = of("b_rel"), keys = c.smearedKeys ? layer.smeared : layer.k;
  gemm(T, E, d, dx, d, 1, of("W_O").at, 1, d, dz, E);
  gemm(E, d, T, layer.z, 1, E, dx, d, 1, of("W_O").grad, d);
  for (let b = 0; b < batch; b++) for (let h = 0; h < c.nHeads; h++) {
    const here = b * n * E + h * e, pattern = layer.pattern + (b * c.nHeads + h) * n * n;
    gemm(n, n, e, dz + here, E, 1, layer.v + here, 1, E, dScores, n);  // gradient of the pattern
    gemm(n, e, n, pattern, 1, n, dz + here, E, 1, dv + here, E);
    for (let i = 0; i < n; i++) {  // softmax: share times (its gradient - the row's mean gradient)
      const p = pattern + i * n, g = dScores + i * n;
      let mean = 0;
      for (let j = 0; j <= i; j++) mean += M[p + j] * M[g + j];
      for (let j = 0; j <= i; j++) M[g + j] = M[p + j] * (M[g + j] - mean);
      for (let j = i + 1; j < n; j++) M[g + j] = 0;
      if (bias) for (let j = 0, at = bias.grad + h * c.nCtx + i; j <= i; j++) M[at - j] += M[g + j];
    }
    gemm(n, e, n, dScores, n, 1, keys + here, E, 1, dq + here, E, 1 / Math.sqrt(e));
    gemm(n, e, n, dScores, 1, n, layer.q + here, E, 1, dk + here, E, 1 / Math.sqrt(e));
  }
  if (c.smearedKeys) unsmearGradients(model, layer, of("smear"), T, n);
  for (const [name, g] of [["W_Q", dq], ["W_K", dk], ["W_V", dv]]) {
    gemm(d, E, T, layer.x, 1, d, g, E, 1, of(name).grad, E);
    gemm(T, d, E, g, E, 1, of(name).at, 1, E, dx, d, 1, 1);
  }
}

/** dk from the gradient of the smeared keys to that of the keys, in place. */
function unsmearGradients({ config: c, heap, heap: { M }, E, dk, pair }, layer, smear, T, n) {
  const shares = ownShares(c, heap, smear, pair);
  for (let t = 0; t < T; t++) for (let e = 0; e < E; e++) {  // in order of t: dk at t + 1 is still that of smeared keys
    const h = (e / c.dHead) | 0, own = shares[h], g = dk + t * E + e, k = layer.k + t * E + e;
    if (t % n) M[smear.grad + h] += M[g] * (M[k] - M[k - E]) * own * (1 - own);
    const fromNext = t % n < n - 1 ? (1 - own) * M[g + E] : 0;
    M[g] = (t % n ? own : 1) * M[g] + fromNext;
  }
}

// ---- Optimizers ----------------------------------------------------------------------------

/** One update of all weights from their gradients: Muon for the heads' matrices, Adam for the rest. */
function update(model) {
  const { config: c, heap: { M } } = model, warm = Math.min(1, (model.step + 1) / c.warmup);
  let norm = 0;
  for (const w of model.parameters) for (let i = 0; i < w.size; i++) norm += M[w.grad + i] ** 2;
  const shrink = Math.min(1, c.clipNorm / (Math.sqrt(norm) + 1e-6));
  model.step++;
  model.powers = [model.powers[0] * c.beta1, model.powers[1] * c.beta2];  // of the betas: Math.pow differs between browsers
  for (const w of model.parameters) {
    if (shrink < 1) for (let i = 0; i < w.size; i++) M[w.grad + i] *= shrink;
    if (w.kind === "heads" && c.optimizer === "muon") muon(model, w, warm * c.rateHeads);
    else adam(model, w, warm * (w.kind === "relative" ? c.rateRelative : c.rate));
  }
}

function adam({ config: { beta1, beta2 }, heap: { M }, powers }, { at, grad, m, v, size }, rate) {
  const bias1 = 1 - powers[0], bias2 = 1 - powers[1];
  for (let i = 0; i < size; i++) {
    const g = M[grad + i];
    M[m + i] += (1 - beta1) * (g - M[m + i]);
    M[v + i] += (1 - beta2) * (g * g - M[v + i]);
    M[at + i] -= rate * (M[m + i] / bias1) / (Math.sqrt(M[v + i] / bias2) + 1e-8);
  }
}

/** Nesterov momentum, made orthogonal head by head (K. Jordan et al. 2024). */
function muon({ config: c, heap, X }, w, rate) {
  const { M } = heap, reads = w.name.slice(-3) !== "W_O", d = c.dModel, e = c.dHead;
  for (let i = 0; i < w.size; i++) {
    const g = M[w.grad + i];
    M[w.m + i] += 0.05 * (g - M[w.m + i]);
    M[w.grad + i] = g + 0.95 * (M[w.m + i] - g);
  }
  for (let h = 0; h < c.nHeads; h++) {  // head h's own matrix as X [long, short]
    const at = reads ? h * e : h * e * d, row = reads ? w.columns : 1, column = reads ? 1 : d;
    const tall = d >= e, long = tall ? d : e, short = tall ? e : d, ls = tall ? row : column, ss = tall ? column : row;
    for (let i = 0; i < long; i++) for (let j = 0; j < short; j++) M[X + i * short + j] = M[w.grad + at + i * ls + j * ss];
    orthogonalize(heap, arguments[0], long, short);
    const size = rate * Math.sqrt(Math.max(1, reads ? d / e : e / d));
    for (let i = 0; i < long; i++) for (let j = 0; j < short; j++) M[w.at + at + i * ls + j * ss] -= size * M[X + i * short + j];
  }
}

/** X [long, short] with its singular vectors kept and all singular values brought near 1 (Newton-Schulz). */
function orthogonalize({ M, gemm }, { X, XX, P, Y }, long, short) {
  let norm = 0;
  for (let i = 0; i < long * short; i++) norm += M[X + i] ** 2;
  norm = 1 / Math.max(Math.sqrt(norm), 1e-12);
  for (let i = 0; i < long * short; i++) M[X + i] *= norm;
  for (let round = 0; round < 5; round++) {
    gemm(short, short, long, X, 1, short, X, short, 1, XX, short);
    M.copyWithin(P, XX, XX + short * short);
    gemm(short, short, short, XX, short, 1, XX, short, 1, P, short, 2.0315, -4.775);
    gemm(long, short, short, X, short, 1, P, short, 1, Y, short);
    for (let i = 0; i < long * short; i++) M[X + i] = 3.4445 * M[X + i] + M[Y + i];
  }
}

// ---- Batches and measures ------------------------------------------------------------------

/** Random tokens, none of them twice. */
function randomSegment(length, uniform) {
  const bag = Array.from({ length: D_VOCAB - 1 }, (_, i) => i + 1);
  for (let i = 0; i < length; i++) { const j = i + Math.floor(uniform() * (bag.length - i)); [bag[i], bag[j]] = [bag[j], bag[i]]; }
  return bag.slice(0, length);
}

/** Windows [batch, nCtx + 1] from BOS on: a share is segments written twice (random tokens or text), the rest text. */
function makeBatch({ config: c }, text, uniform) {
  const rows = [];
  for (let b = 0; b < c.batch; b++) {
    const repeats = uniform() < c.repeatShare, row = [BOS];
    while (row.length <= c.nCtx) {
      const length = repeats ? c.shortest + Math.floor(uniform() * (c.longest - c.shortest + 1)) : c.nCtx, at = Math.floor(uniform() * (text.length - length));
      const segment = repeats && uniform() < c.randomShare ? randomSegment(length, uniform) : text.slice(at, at + length);
      row.push(...segment, ...(repeats ? segment : []));
    }
    rows.push(row.slice(0, c.nCtx + 1));
  }
  return { inputs: rows.flatMap((row) => row.slice(0, -1)), targets: rows.flatMap((row) => row.slice(1)) };
}

function trainStep(model, text, uniform) {
  const { config: c } = model, { inputs, targets } = makeBatch(model, text, uniform);
  forward(model, inputs, c.batch, c.nCtx);
  const loss = backward(model, inputs, targets, c.batch, c.nCtx);
  update(model);
  return loss;
}

/** BOS and random segments written twice, for measuring: `rows` of them, always the same. */
function makeProbe({ config: c }, rows = c.batch) {
  const uniform = uniformNumbers(999), length = Math.floor((c.nCtx - 1) / 2), n = 1 + 2 * length, tokens = [];
  for (let b = 0; b < rows; b++) { const s = randomSegment(length, uniform); tokens.push(BOS, ...s, ...s); }
  return { tokens, rows, n, length };
}

/** Losses of both copies, the share copied, and every head's scores; the patterns stay in the layers. */
function measure(model, probe, ablated = new Map()) {
  const { config: c, heap: { M } } = model, { tokens, rows, n, length } = probe, T = rows * n;
  if ([...ablated.values()].includes("mean")) { forward(model, tokens, rows, n); keepMeans(model, T); }
  forward(model, tokens, rows, n, ablated);
  const targets = tokens.map((_, t) => tokens[t + 1] ?? 0);
  measureLosses(model, targets, T);
  let first = 0, second = 0, right = 0;
  for (let b = 0; b < rows; b++) for (let i = 0; i < n - 1; i++) {
    if (i < length) first += model.losses[b * n + i];
    if (i <= length) continue;  // the first token of the second copy: nothing says yet that a repeat has begun
    second += model.losses[b * n + i];
    const at = model.probs + (b * n + i) * D_VOCAB;
    let best = 0;
    for (let t = 1; t < D_VOCAB; t++) if (M[at + t] > M[at + best]) best = t;
    right += best === targets[b * n + i];
  }
  const asked = rows * (length - 1);
  return { first: first / rows / length, second: second / asked, copied: right / asked, scores: headScores(model, probe) };
}

/** The mean of each head's z over all positions of the last forward. */
function keepMeans({ config: c, heap: { M }, layers, means, E }, T) {
  means.forEach((mean, i) => {
    const z = layers[Math.floor(i / c.nHeads)].z + (i % c.nHeads) * c.dHead;
    for (let e = 0; e < c.dHead; e++) {
      let sum = 0;
      for (let t = 0; t < T; t++) sum += M[z + t * E + e];
      mean[e] = sum / T;
    }
  });
}

/** For every layer and head: mean share to the previous token, and in the second copy to the token after the first copy. */
function headScores({ config: c, heap: { M }, layers }, { rows, n, length }) {
  return layers.map(({ pattern }) => Array.from({ length: c.nHeads }, (_, h) => {
    let previous = 0, induction = 0;
    for (let b = 0; b < rows; b++) for (let i = 1, p = pattern + (b * c.nHeads + h) * n * n; i < n; i++) {
      previous += M[p + i * n + i - 1];
      if (i > length) induction += M[p + i * n + i - length + 1];
    }
    return { previous: previous / rows / (n - 1), induction: induction / rows / length };
  }));
}

/** Letters to tokens; what has no token becomes a space. */
const toTokens = (text) => Array.from(text, (letter) => 1 + (LETTERS.includes(letter) ? LETTERS.indexOf(letter) : LETTERS.indexOf(" ")));
const toLetter = (token) => (token === BOS ? "·" : LETTERS[token - 1]);

// ---- Weights in and out --------------------------------------------------------------------

/** A copy of all weights, one after the other. */
function copyWeights({ parameters, heap: { M } }) {
  const all = new Float32Array(parameters.reduce((sum, w) => sum + w.size, 0));
  let from = 0;
  for (const w of parameters) { all.set(M.subarray(w.at, w.at + w.size), from); from += w.size; }
  return all;
}

function putWeights({ parameters, heap: { M } }, all) {
  let from = 0;
  for (const w of parameters) { M.set(all.subarray(from, from + w.size), w.at); from += w.size; }
}

/** The weights as a safetensors file, under the names and in the shapes that aot_helpers has. */
function toSafetensors(model) {
  const { config: c, heap: { M }, parameters } = model, reads = [c.nHeads, c.dModel, c.dHead], header = {}, parts = [];
  header.__metadata__ = { aot: JSON.stringify({ letters: LETTERS, step: model.step, settings: c }) };
  let at = 0;
  for (const w of parameters) {
    const name = w.name.replace(/^L(\d)\./, "blocks.$1.attn."), last = w.name.slice(-3), values = M.slice(w.at, w.at + w.size);
    let shape = w.name.endsWith("smear") ? [c.nHeads] : [w.rows, w.columns], data = values;
    if (["W_Q", "W_K", "W_V"].includes(last)) {  // the heads stand side by side here, one after the other there
      shape = reads;
      data = new Float32Array(w.size);
      for (let h = 0, to = 0; h < c.nHeads; h++) for (let i = 0; i < c.dModel; i++) for (let e = 0; e < c.dHead; e++) data[to++] = values[i * w.columns + h * c.dHead + e];
    } else if (last === "W_O") shape = [c.nHeads, c.dHead, c.dModel];
    header[name] = { dtype: "F32", shape, data_offsets: [at, at += 4 * w.size] };
    parts.push(data);
  }
  let text = JSON.stringify(header);
  text += " ".repeat((8 - (text.length % 8)) % 8);
  const head = new TextEncoder().encode(text), bytes = new Uint8Array(8 + head.length + at);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(head.length), true);
  bytes.set(head, 8);
  let to = 8 + head.length;
  for (const data of parts) { bytes.set(new Uint8Array(data.buffer), to); to += data.byteLength; }
  return bytes;
}

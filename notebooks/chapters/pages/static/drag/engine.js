// An attention-only transformer at several steps of its training, and its tokenizer: tokens in,
// probabilities and attention patterns out, with any heads zero-ablated.

/** The whole numbers of a file that Python has packed: steps as differences, in two planes of bytes. */
async function inflate(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** [{name: Float32Array}] for each step. packed: {shapes, grains, coarse, files}. */
async function unpackSteps({ shapes, grains, coarse, files }) {
  const names = Object.keys(shapes), sizes = names.map((name) => shapes[name].reduce((a, b) => a * b, 1));
  const total = sizes.reduce((a, b) => a + b, 0), now = new Int32Array(total), steps = [];
  for (const [k, file] of files.entries()) {
    const bytes = await inflate(file), weights = {};
    for (let i = 0; i < total; i++) {
      const folded = bytes[i] + 256 * bytes[total + i];  // 0, -1, 1, -2, … are 0, 1, 2, 3, …
      now[i] += (folded & 1 ? -(folded + 1) / 2 : folded / 2) * 2 ** coarse[k];
    }
    let at = 0;
    names.forEach((name, j) => { weights[name] = Float32Array.from(now.subarray(at, at + sizes[j]), (x) => x * grains[j]); at += sizes[j]; });
    steps.push(weights);
  }
  return steps;
}

/** out [n, columns] += x [n, rows] @ W [rows, columns], W from an offset on. */
function addProduct(out, x, n, rows, W, offset, columns) {
  for (let i = 0; i < n; i++) for (let k = 0; k < rows; k++) {
    const a = x[i * rows + k], w = offset + k * columns, to = i * columns;
    if (a) for (let j = 0; j < columns; j++) out[to + j] += a * W[w + j];
  }
  return out;
}

function softmax(row) {
  let most = -Infinity, sum = 0;
  for (const x of row) if (x > most) most = x;
  for (let j = 0; j < row.length; j++) sum += row[j] = Math.exp(row[j] - most);
  for (let j = 0; j < row.length; j++) row[j] /= sum;
}

/** {probabilities [n, d_vocab] of the next token, patterns: {"L0H3": [query, key]}}. off: heads, zero-ablated. */
function runModel(weights, config, ids, off = []) {
  const { d_vocab, n_layers, d_model, n_heads, d_head, n_ctx } = config, n = ids.length, patterns = {};
  const resid = new Float64Array(n * d_model), product = (x, rows, W, at, columns) => addProduct(new Float64Array(n * columns), x, n, rows, W, at, columns);
  ids.forEach((id, i) => { for (let j = 0; j < d_model; j++) resid[i * d_model + j] = weights.W_E[id * d_model + j]; });
  for (let layer = 0; layer < n_layers; layer++) {
    const read = resid.slice(), W = (name) => weights[`blocks.${layer}.attn.${name}`];
    for (let h = 0; h < n_heads; h++) {
      const at = h * d_model * d_head, [q, k, v] = ["W_Q", "W_K", "W_V"].map((name) => product(read, d_model, W(name), at, d_head));
      const pattern = new Float64Array(n * n), z = new Float64Array(n * d_head), name = `L${layer}H${h}`;
      for (let i = 0; i < n; i++) {
        const row = pattern.subarray(i * n, i * n + i + 1);  // no key after the query
        for (let j = 0; j <= i; j++) {
          let dot = 0;
          for (let d = 0; d < d_head; d++) dot += q[i * d_head + d] * k[j * d_head + d];
          row[j] = dot / Math.sqrt(d_head) + W("b_rel")[h * n_ctx + i - j];
        }
        softmax(row);
        for (let j = 0; j <= i; j++) for (let d = 0; d < d_head; d++) z[i * d_head + d] += row[j] * v[j * d_head + d];
      }
      patterns[name] = pattern;
      if (!off.includes(name)) addProduct(resid, z, n, d_head, W("W_O"), at, d_model);
    }
  }
  const probabilities = product(resid, d_model, weights.W_U, 0, d_vocab);
  for (let i = 0; i < n; i++) softmax(probabilities.subarray(i * d_vocab, (i + 1) * d_vocab));
  return { probabilities, patterns };
}

/** Byte-pair encoding as GPT-2's. tokens: [id], pieces in GPT-2's letters for bytes. merges: ["a b"], the first ones first. */
function makeTokenizer({ tokens, merges, bos }) {
  const ids = new Map(tokens.map((token, id) => [token, id])), ranks = new Map(merges.map((pair, i) => [pair, i])), known = new Map();
  const words = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
  const letters = [], bytes = new Map();  // the letter of each byte, and back
  for (let byte = 0, extra = 256; byte < 256; byte++) {
    const plain = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
    letters.push(String.fromCharCode(plain ? byte : extra++));
    bytes.set(letters[byte], byte);
  }
  function pieces(word) {
    const parts = [...new TextEncoder().encode(word)].map((byte) => letters[byte]);
    for (;;) {
      let best = Infinity, at = -1;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
        if (rank < best) { best = rank; at = i; }
      }
      if (at < 0) return parts.map((part) => ids.get(part));
      parts.splice(at, 2, parts[at] + parts[at + 1]);
    }
  }
  const encodePlain = (text) => (text.match(words) || []).flatMap((word) => {
    if (!known.has(word)) known.set(word, pieces(word));
    return known.get(word);
  });
  return {
    encode: (text) => text.split(tokens[bos]).flatMap((part, i) => [...(i ? [bos] : []), ...encodePlain(part)]),
    /** A token as readable text; a part of a character by its bytes, such as ‹c5›. */
    show(id) {
      if (id === bos) return tokens[bos];
      const content = Uint8Array.from(tokens[id], (letter) => bytes.get(letter));
      try { return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content); } catch { return `‹${[...content].map((byte) => byte.toString(16).padStart(2, "0")).join(" ")}›`; }
    },
  };
}

/** A source of readings for the view, from what Python has packed: it reads any name. */
function openRun(run, steps) {
  const { config, story, previous, induction } = run, tokenizer = makeTokenizer(run.tokenizer);
  const offs = [[], previous, induction, [...previous, ...induction]];  // bit 1: previous-token head off, bit 2: induction heads off
  function read(name) {
    const letters = [...name];
    let ids, spans;
    for (let kept = letters.length; ; kept--) {  // a name whose two mentions do not fit is cut
      const cut = letters.slice(0, kept).join(""), [before, between] = story;
      const parts = [before, ` ${cut}`, between, ` ${cut}`].map((part) => tokenizer.encode(part));
      ids = [run.tokenizer.bos, ...parts.flat()];
      const ends = parts.reduce((all, part) => [...all, all[all.length - 1] + part.length], [0]);
      spans = [[ends[1], ends[2]], [ends[3], ends[4]]];
      if (ids.length <= config.n_ctx) break;
    }
    const n = ids.length, cache = new Map();
    function at(k, state) {
      const key = 4 * k + state;
      if (!cache.has(key)) {
        const { probabilities, patterns } = runModel(steps[k], config, ids, offs[state]), p = [], guesses = [];
        for (let i = 1; i < n; i++) {
          const row = probabilities.subarray((i - 1) * config.d_vocab, i * config.d_vocab);
          p.push(row[ids[i]]);
          guesses.push(tokenizer.show(row.reduce((best, x, id) => (x > row[best] ? id : best), 0)));
        }
        cache.set(key, { p, guesses, previous: patterns[previous[0]], induction: patterns[induction[0]] });
      }
      return cache.get(key);
    }
    return { tokens: ids.slice(1).map(tokenizer.show), spans, at, has: (k, state) => cache.has(4 * k + state) };
  }
  return { steps: run.steps, name: run.name, heads: { previous, induction }, read };
}

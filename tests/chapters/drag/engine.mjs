// Runs the engine of the training page for tests/chapters/test_pages_training.py. Standard input: {"run": a
// JSON file of run_data, "floats": a file of one step's float32 weights, "texts": to be encoded,
// "cases": [{step, ids, off}], step -1 being the floats, "names": to be read}. Standard output: ids
// and shown tokens of each text, probabilities and two patterns of each case, readings of names.
import { readFileSync } from "node:fs";
const source = readFileSync(new URL("../../../notebooks/chapters/pages/static/drag/engine.js", import.meta.url), "utf8");
const { unpackSteps, runModel, makeTokenizer, openRun } = (0, eval)(`(() => {${source}\nreturn { unpackSteps, runModel, makeTokenizer, openRun }; })()`);
const asked = JSON.parse(readFileSync(0, "utf8")), run = JSON.parse(readFileSync(asked.run, "utf8"));
const floats = {};
const given = new Float32Array(new Uint8Array(readFileSync(asked.floats)).buffer);
let at = 0;
for (const [name, shape] of Object.entries(run.weights.shapes)) { const size = shape.reduce((a, b) => a * b, 1); floats[name] = given.subarray(at, at += size); }
const packed = (numbers) => Buffer.from(Float32Array.from(numbers).buffer).toString("base64");
const steps = await unpackSteps(run.weights), tokenizer = makeTokenizer(run.tokenizer), opened = openRun(run, steps);
const answer = {
  ids: asked.texts.map(tokenizer.encode),
  shown: asked.texts.map((text) => tokenizer.encode(text).map(tokenizer.show)),
  cases: asked.cases.map(({ step, ids, off }) => {
    const { probabilities, patterns } = runModel(step < 0 ? floats : steps[step], run.config, ids, off);
    return { probabilities: packed(probabilities), patterns: packed(["L0H3", "L1H0"].flatMap((head) => [...patterns[head]])) };
  }),
  names: asked.names.map((name) => {
    const { tokens, spans, at } = opened.read(name), states = [0, 1, 2, 3].map((state) => at(opened.steps.length - 1, state));
    return { tokens, spans, p: states.map(({ p }) => p), guesses: states.map(({ guesses }) => guesses) };
  }),
};
process.stdout.write(JSON.stringify(answer));

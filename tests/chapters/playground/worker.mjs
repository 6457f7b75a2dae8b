// Runs the playground's worker as its page does, for tests/chapters/test_pages_playground.py. Standard input: {script, talk}, where talk
// is a list of commands, and of numbers: to wait for a message of the present run at that step. Prints all messages.
import { readFileSync } from "node:fs";
const { script, talk } = JSON.parse(readFileSync(0, "utf8")), said = [], self = {};
let heard = () => {};
self.postMessage = ({ run, step, copied, whole, ablated, ended }) => { said.push({ run, step, copied, whole: whole.copied, ablated, ended }); heard(); };
new Function("self", script)(self);
let run = 0;
for (const each of talk) {
  if (typeof each === "object") self.onmessage({ data: { ...each, run: (run = each.run) } });
  else await new Promise((done) => { (heard = () => { const { run: of, step } = said[said.length - 1]; if (of === run && step >= each) done(); })(); });
}
process.stdout.write(JSON.stringify(said), () => process.exit());

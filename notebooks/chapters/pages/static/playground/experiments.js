// The guided experiments. `steps`: where training ends, if it does not end 60 steps after 90 % are copied.
// `then`: what the reader does before it is told what came out. `right`: the answer that came out.
// What stands in double braces is filled in from measured.json, five runs each, seeds 1 to 5.
const EXPERIMENTS = [
  { title: "One layer", settings: { nLayers: 1 }, steps: 600, answers: ["few", "about half", "nearly all"], right: 0,
    question: "A single layer of four heads, 600 steps. How many of the random letters will it copy?",
    outcome: "Few: {{one_layer}} in five runs, where two layers needed {{two_layers}} steps for 90 %. To copy, a head must attend to the letter that came <i>after</i> the earlier one. In one layer it finds letters by what they are, not by what stood before them." },
  { title: "One layer, smeared keys", settings: { nLayers: 1, smearedKeys: true }, steps: 600, answers: ["few", "about half", "nearly all"], right: 2,
    question: "A head finds a letter by its <b>key</b>. Again there is one layer, but each key is mixed with the key of the letter before. Now?",
    outcome: "Nearly all: 90 % after {{smeared}} steps in five runs. The mixed key says what stood before, which is what the previous-token head does in a model of two layers; so one layer is enough." },
  { title: "The head that copies", settings: {}, steps: 1000, then: "ablate", answers: ["nearly all", "about half", "nearly nothing"], right: 2,
    question: "Two layers learn to copy. Then you ablate every head that is labeled <b class='induction'>induction</b>. How much will still be copied?",
    outcome: "Nearly nothing: {{whole}} fell to {{no_induction}} in five runs. Without any one of the other heads of layer 1 it was still {{others}}. {{two_induction}} The previous-token heads of layer 0 matter as much: without those with a score above 0.3, {{no_previous}}." },
  { title: "Fewer repeats", settings: { repeatShare: {{few}} }, steps: 1000, answers: ["by step 300", "by step 1000", "not by step 1000"], right: 2,
    question: "Only {{few_percent}} of the windows are written twice, the others are stories. When will 90 % be copied?",
    outcome: "Not by step 1000, in none of five runs: {{few_copied}} were copied. With 90 % of the windows written twice they were by {{ninety}}; with all of them by step {{two_layers}}. Whether such heads form hangs on how often copying pays." },
  { title: "No positions", settings: { positions: "none" }, steps: 600, answers: ["yes", "no"], right: 1,
    question: "Nothing tells a head how far away a letter is; it only cannot see ahead. Will two layers copy?",
    outcome: "No, in none of five runs by step 600: no head finds the letter before (previous-token scores of at most {{none_previous}}). Now tick <b>Smeared keys</b> in the settings and train: five of five runs copied, after {{none_smeared}} steps. Of all distances, copying needs only the step to the letter before." },
  { title: "A name it never saw", settings: {}, steps: 1000, then: "type", answers: ["only names of the stories", "any name"], right: 1,
    question: "Train until it copies, then type a name of your own twice. Which names will be guessed the second time?",
    outcome: "Any name: {{names}} of the letters of made-up names, after the first letter, in five runs; {{names_early}} at step {{early}}, before it copied, and {{names_without}} again without the induction heads. It has learned where to attend, not the names." },
];

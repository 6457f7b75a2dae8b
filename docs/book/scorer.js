// The search from the disk: the glossary first, then the tours, the evidence last.
var Scorer = {
  score: ([docname, , , , score]) => score + (docname === "glossary" ? 60
    : docname.startsWith("notebooks/evidence/") || docname === "ledger" ? 0 : 40),
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};

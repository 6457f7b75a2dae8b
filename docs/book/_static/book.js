// What the book adds to its theme: meanings of terms, the ledger's filters, search, printing.
"use strict";

// ---- a term's meaning, where it is pointed at, has the focus, or is touched ----
function explainTerms() {
  const tip = document.createElement("div");
  tip.id = "tip"; tip.hidden = true; tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  const hide = () => { tip.hidden = true; };
  for (const link of document.querySelectorAll("a.term")) {
    const meaning = link.title;
    link.removeAttribute("title");
    const show = () => {
      if (!tip.hidden && tip.textContent === meaning) return;
      tip.textContent = meaning; tip.hidden = false;
      link.setAttribute("aria-describedby", "tip");
      const at = link.getBoundingClientRect(), wide = document.documentElement.clientWidth;
      tip.style.left = `${Math.max(8, Math.min(at.left, wide - tip.offsetWidth - 8)) + scrollX}px`;
      tip.style.top = `${at.bottom + 4 + scrollY}px`;
    };
    link.addEventListener("pointerenter", event => { if (event.pointerType !== "touch") show(); });
    link.addEventListener("focus", show);
    link.addEventListener("pointerleave", hide);
    link.addEventListener("blur", hide);
    link.addEventListener("click", event => { // the first touch explains, the second follows
      if (event.pointerType === "touch" && (tip.hidden || tip.textContent !== meaning)) {
        event.preventDefault(); show();
      }
    });
  }
  addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
}

// ---- the ledger: choices hide lines, and stand in the address, so that they can be sent ----
function filterLedger(form) {
  const claims = [...document.querySelectorAll("#claims > .claim")];
  const shown = document.getElementById("shown");
  const texts = claims.map(claim => claim.textContent.toLowerCase());
  const fits = (claim, name, value) => name === "source"
    ? claim.dataset.source.split("|").includes(value) : claim.dataset[name] === value;
  function apply() {
    const chosen = [...new FormData(form)].filter(([, value]) => value);
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    claims.forEach((claim, i) => {
      const fit = chosen.every(([name, value]) => name === "words" || fits(claim, name, value))
        && words.every(word => texts[i].includes(word));
      claim.hidden = !fit; count += fit;
    });
    shown.textContent = `${count} of ${claims.length} claims`;
    const query = new URLSearchParams(chosen).toString();
    history.replaceState(null, "", `${location.pathname}${query ? `?${query}` : ""}${location.hash}`);
  }
  for (const [name, value] of new URLSearchParams(location.search))
    if (form.elements[name]) form.elements[name].value = value;
  form.addEventListener("input", apply);
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", event => event.preventDefault());
  apply();
  const open = () => {
    const claim = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (claim && claim.matches(".claim")) {
      if (claim.hidden) { form.reset(); }
      claim.open = true; setTimeout(() => claim.scrollIntoView());
    }
  };
  addEventListener("hashchange", open);
  open();
}

// ---- search: Pagefind where a server serves the book, the theme's own index from the disk ----
async function search(results) {
  const query = new URLSearchParams(location.search).get("q");
  if (!query || !location.protocol.startsWith("http")) return;
  document.documentElement.classList.add("pagefind");
  const found = document.createElement("div");
  found.id = "found"; found.setAttribute("aria-live", "polite");
  results.before(found);
  try {
    const pagefind = await import(new URL("pagefind/pagefind.js", location.href).href);
    const kinds = ["glossary", "tour", "other", "evidence"]; // in this order
    const lists = await Promise.all(kinds.map(kind => pagefind.search(query, { filters: { kind } })));
    let [[glossary], ...rest] = lists.map(list => list.results);
    glossary = glossary && await glossary.data();
    const slug = query.trim().toLowerCase().replace(/[^\p{L}\p{N}_]+/gu, "-");
    const term = [`term-${slug}`, `term-${slug.replace(/s$/, "")}`].find(id =>
      glossary && glossary.anchors.some(each => each.id === id));
    const count = rest.flat().length + Boolean(glossary);
    found.textContent = count ? `${count} pages on “${query}”` : `Nothing on “${query}”.`;
    const pages = await Promise.all(rest.flat().slice(0, 20).map(each => each.data()));
    if (term) pages.unshift({ ...glossary, url: `${glossary.url.split("#")[0]}#${term}` });
    else if (glossary) pages.splice(rest[0].length, 0, glossary); // after the tours
    for (const result of pages) {
      const title = document.createElement("h3"), link = document.createElement("a");
      link.href = result.url; link.textContent = result.meta.title;
      if (/\/evidence\//.test(result.url) && !/evidence/.test(link.textContent))
        link.textContent += " (evidence)";
      title.append(link);
      const excerpt = document.createElement("p"), places = document.createElement("ul");
      excerpt.innerHTML = result.excerpt; // Pagefind escapes all but its <mark>
      for (const part of result.sub_results.slice(0, 4).filter(each => each.url !== result.url)) {
        const item = document.createElement("li"), to = document.createElement("a");
        to.href = part.url; to.textContent = part.title; item.append(to); places.append(item);
      }
      found.append(title, excerpt, places);
    }
  } catch { // an old browser: the theme's index has searched meanwhile
    found.remove(); document.documentElement.classList.remove("pagefind");
  }
}

function start() {
  explainTerms();
  const form = document.getElementById("filters"), results = document.getElementById("search-results");
  if (form) filterLedger(form);
  if (results) search(results);
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".bd-article details:not([open]):not(.claim)")];
    opened.forEach(each => { each.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach(each => { each.open = false; }));
}
if (document.readyState === "loading") addEventListener("DOMContentLoaded", start); else start();

// What pages that stand alone have in common. The theme is that of the address, ?theme=light or ?theme=dark, or the system's.
const system = matchMedia("(prefers-color-scheme: dark)"), wantedTheme = new URLSearchParams(location.search).get("theme");
function setTheme() {
  const theme = ["light", "dark"].includes(wantedTheme) ? wantedTheme : system.matches ? "dark" : "light";
  document.body.classList.remove("light", "dark");
  document.body.classList.add(theme);
  document.documentElement.style.colorScheme = theme;
}
setTheme();
system.addEventListener("change", setTheme);
if (self !== top) document.head.append(Object.assign(document.createElement("base"), { target: "_blank" }));  // a frame's links leave it

// Arrow keys, space or a tap: on and back; b: black; f: full screen. The number stands in the address.
const all = [...document.querySelectorAll("section")];
let now = Math.min(Math.max((parseInt(location.hash.slice(1)) || 1) - 1, 0), all.length - 1);
function show(to) {
  now = Math.min(Math.max(to, 0), all.length - 1);
  all.forEach((each, i) => each.classList.toggle("now", i === now));
  history.replaceState(null, "", `#${now + 1}`);
}
const ON = ["ArrowRight", "ArrowDown", "PageDown", " "], BACK = ["ArrowLeft", "ArrowUp", "PageUp"];
addEventListener("keydown", ({ key }) => {
  if (ON.includes(key)) show(now + 1);
  if (BACK.includes(key)) show(now - 1);
  if (key === "b") all[now].classList.toggle("black");
  if (key === "f") document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen();
});
addEventListener("click", ({ clientX }) => show(now + (clientX > innerWidth / 4 ? 1 : -1)));
show(now);

// The playground inside a notebook: the whole page in a frame, so that neither one's style reaches the other.
(root, { page }) => {
  const frame = Object.assign(document.createElement("iframe"), { srcdoc: page, title: "Will it learn to copy? A transformer that is trained in this page" });
  frame.style.cssText = "width: 100%; height: 720px; border: 1px solid #cfccd6; border-radius: 10px";
  root.replaceChildren(frame);
}

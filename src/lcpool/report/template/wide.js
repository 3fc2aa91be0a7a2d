// Tables that are wider than the window say so.
const wide = [...document.querySelectorAll(".wide")];

function hint() {
  for (const box of wide) box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1);
}

hint();
window.addEventListener("resize", hint);
for (const form of document.forms) form.addEventListener("change", hint);

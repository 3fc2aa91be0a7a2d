// Explanations: one box, shown beside what is pointed at or has the focus, and kept on the screen.
const tip = document.getElementById("tip");

function show(event) {
  const target = event.target.closest("[data-tip]");
  tip.classList.toggle("shown", target !== null);
  if (target === null) return;
  tip.textContent = target.dataset.tip;
  target.setAttribute("aria-describedby", "tip");
  const box = target.getBoundingClientRect();
  const pointed = event.clientX !== undefined;
  const x = pointed ? event.clientX + 12 : box.left;
  const below = (pointed ? event.clientY : box.bottom) + 14;
  const above = (pointed ? event.clientY : box.top) - tip.offsetHeight - 8;
  const fits = below + tip.offsetHeight < window.innerHeight;
  tip.style.left = `${Math.max(4, Math.min(x, window.innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${fits ? below : Math.max(4, above)}px`;
}

for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, show);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.classList.remove("shown");
});


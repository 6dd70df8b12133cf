// A link inside the page: Gradio's <base> would turn it into a journey to another address.
// Knows links and their goals; no page.

export function jump(root, event) {
  const link = event.target.closest("a[href^='#']");
  if (!link) return;
  event.preventDefault();
  const goal = root.querySelector(link.getAttribute("href"));
  const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  goal.scrollIntoView({ behavior: isStill ? "auto" : "smooth" });
  goal.focus({ preventScroll: true });
}

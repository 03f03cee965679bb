// Runs before the page is drawn, so that it does not flash in the other colours.
(() => {
  const kept = localStorage.getItem("lastitem.theme");
  if (kept) document.documentElement.dataset.theme = kept;
})();

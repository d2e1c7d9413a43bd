const shownRows = 10;
const valueOf = (row, column) => {
  const cell = row.cells[column];
  return cell.dataset.n === undefined ? cell.textContent : Number(cell.dataset.n);
};
const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b);
for (const section of document.querySelectorAll("section:has(table)")) {
  const table = section.querySelector("table"), unfold = section.querySelector("button");
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  const show = (limit) => rows.forEach((row, at) => {
    row.hidden = at >= limit;
    table.tBodies[0].append(row);
  });
  let limit = unfold ? shownRows : rows.length;
  unfold?.addEventListener("click", () => {
    unfold.hidden = true;
    show(limit = rows.length);
  });
  if (unfold) unfold.hidden = false;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      const sign = order === "descending" ? -1 : 1;
      rows.sort((a, b) => sign * compare(valueOf(a, column), valueOf(b, column)));
      show(limit);
    });
  });
  show(limit);
}
const file = document.querySelector("textarea"), link = document.querySelector("a");
if (file) {
  link.href = URL.createObjectURL(new Blob(["\ufeff", file.value], {type: "text/csv"}));
  link.hidden = false;
}

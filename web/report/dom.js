// Helpers: elements, numbers as text, files to save. Text from outside becomes text nodes only.

/** An element with attributes (a function is a listener, false or null leaves one out) and children. */
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

/** A short number: 4 significant digits, exponents only where they help. */
function short(value) {
  if (value == null || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e6)) return value.toExponential(2);
  return size >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}

/** "97.57 ± 0.18"; the deviation is left out if there is only one value. By default it has two significant
 * digits, and the mean as many decimals. */
function mean_and_spread({ mean, sd, n }, digits) {
  if (!n || mean == null) return '–';
  const wanted = digits ?? (sd > 0 ? 1 - Math.floor(Math.log10(sd)) : null);
  const text = (value) => (wanted == null || wanted > 6 ? short(value) : value.toFixed(Math.max(wanted, 0)));
  return n > 1 ? `${text(mean)} ± ${text(sd)}` : text(mean);
}

function csv_cell(value) {
  const text = value == null ? '' : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** CSV of a table of columns {name: [values]}. */
function csv_of(columns) {
  const names = Object.keys(columns);
  const rows = names.length ? columns[names[0]].map((_, i) => names.map((name) => columns[name][i])) : [];
  return [names, ...rows].map((row) => row.map(csv_cell).join(',')).join('\n') + '\n';
}

/** A link that saves the result of `make()`, which is called when the link is used. */
function save_link(label, name, type, make) {
  const link = element('a', { href: '#', download: name, class: 'save' }, label);
  link.addEventListener('click', () => {
    const url = URL.createObjectURL(new Blob([make()], { type }));
    link.href = url;
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  });
  return link;
}

/** A table in a box that scrolls if the table is wider than the page, below its explanation. */
function table(label, explanation, header, rows, style) {
  const node = element('table', { class: style, 'aria-label': label },
    element('thead', {}, element('tr', {}, header.map((cell) => element('th', { scope: 'col' }, cell)))),
    rows.length && rows[0].tagName === 'TBODY' ? rows : element('tbody', {}, rows));
  return [explanation && element('p', { class: 'explanation' }, explanation),
    element('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, node)];
}

/** A button that shows and hides something. */
function expander(label, on_change) {
  const button = element('button', { type: 'button', class: 'expander', 'aria-expanded': 'false' }, label);
  button.addEventListener('click', () => {
    const open = button.getAttribute('aria-expanded') !== 'true';
    button.setAttribute('aria-expanded', String(open));
    on_change(open);
  });
  return button;
}

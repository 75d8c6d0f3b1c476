// Tables and figures of the paper: what `covnoise paper` wrote as <item>.json next to a figure.

/** The item in a file, or nothing: there are other JSON files next to figures. */
function item_of(file) {
  if (!file.name.endsWith('.json') || file.text == null) return null;
  try {
    const item = JSON.parse(file.text);
    return item && item.item && Array.isArray(item.tables) && Array.isArray(item.notes) ? item : null;
  } catch (error) {
    return null;
  }
}

function item_table(item, content) {
  const rows = content.rows.map((row) => element('tr', {}, row.map((cell) => element('td', {}, String(cell)))));
  return table(content.title || item.title, content.title || null, content.header, rows, 'item');
}

function item_node(item) {
  return element('div', { class: 'paper-item' },
    element('p', {}, element('b', {}, item.title), item.quick ? ' (quick)' : ''),
    item.claim ? element('p', {}, `The paper: ${item.claim}`) : '',
    item.tables.map((content) => item_table(item, content)).flat(),
    item.notes.map((note) => element('p', { class: 'explanation' }, note)));
}

function items_of(folder) {
  return folder.files.map(item_of).filter((item) => item).map(item_node);
}

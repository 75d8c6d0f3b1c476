// One section per pair of model and data set: results, curves, configurations.

function legend(shared, panels) {
  const buttons = shared.groups.map((group, index) => {
    const button = element('button', { type: 'button', class: 'toggle', 'aria-pressed': 'true' },
      swatch(index, theme()), group.label);
    button.addEventListener('click', () => set(index, shared.hidden.has(index)));
    return button;
  });
  const set = (index, shown) => {
    shared.hidden[shown ? 'delete' : 'add'](index);
    buttons[index].setAttribute('aria-pressed', String(shown));
    panels.forEach((panel) => panel.show_group(index, shown));
  };
  const all = (shown) => element('button', { type: 'button', click: () => buttons.forEach((_, i) => set(i, shown)) },
    shown ? 'All' : 'None');
  const extra = buttons.length > 2 ? [all(true), all(false)] : [];
  const node = element('div', { class: 'legend', role: 'group', 'aria-label': 'Groups shown' }, buttons, extra);
  node.repaint = () => buttons.forEach((button, i) => button.firstChild.replaceWith(swatch(i, theme())));
  return node;
}

/** Test accuracy next to train loss, if a run has them. */
function first_quantities(quantities) {
  const by_name = (column) => quantities.find((quantity) => quantity.column === column);
  const left = by_name('test_accuracy') || quantities[0];
  const right = by_name('train_loss') || quantities[quantities.length - 1];
  return [left, right];
}

function curves_of(groups) {
  const quantities = quantities_of(groups.flatMap((group) => group.runs));
  if (quantities.length === 0) return { node: element('p', {}, 'No epoch is finished yet, so there are no curves.'), panels: [] };
  const shared = { groups, hidden: new Set(), axis: 'epoch', band: 'range' };
  const panels = first_quantities(quantities).map((quantity) => new Panel(shared, quantities, quantity));
  const redraw = (key) => (value) => {
    shared[key] = value;
    panels.forEach((panel) => panel.draw());
  };
  const several = groups.some((group) => group.runs.length > 1);
  const bands = [['range', 'lowest to highest'], ['sd', '± standard deviation']];
  const toggles = legend(shared, panels);
  const node = element('div', { class: 'curves' },
    element('div', { class: 'controls' }, toggles,
      menu('Over', [['epoch', 'epochs'], ['step', 'steps']], 'epoch', redraw('axis')),
      several && menu('Band over runs', bands, 'range', redraw('band'))),
    element('div', { class: 'panels' }, panels.map((panel) => panel.node)),
    element('p', { class: 'hint' }, 'Lines are means over the runs of a group that reached the point. ' +
      'Drag to zoom, double-click to reset, hover to read values.'));
  return { node, panels, repaint: toggles.repaint };
}

function section_of(data, title, groups, id) {
  const curves = curves_of(groups);
  const node = element('section', { id, 'aria-labelledby': `${id}-title` },
    element('h2', { id: `${id}-title` }, title),
    results_table(groups, title),
    element('h3', {}, 'Curves'), curves.node,
    element('h3', {}, 'Configurations'), ...configurations(data, groups));
  return { ...curves, node, title, id };
}

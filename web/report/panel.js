// A chart with its menus, a readout at the pointer, and keyboard control. One panel shows one quantity of all groups.

function menu(label, options, chosen, on_choose) {
  const select = element('select', { change: () => on_choose(select.value) },
    options.map(([value, text]) => element('option', { value, selected: value === chosen }, text)));
  return element('label', {}, element('span', {}, label), select);
}

class Panel {
  /** `shared` is what all panels of a section have in common: {groups, hidden, axis, band}. */
  constructor(shared, quantities, first) {
    this.shared = shared;
    this.quantities = quantities;
    this.quantity = first;
    this.log = false;
    this.box = element('div', { class: 'chart', tabindex: 0, role: 'group', keydown: (event) => this.on_key(event) });
    this.readout = element('div', { class: 'readout', hidden: true, 'aria-live': 'polite' });
    this.reset = element('button', { type: 'button', disabled: true, click: () => this.show_all() }, 'Reset zoom');
    const choices = quantities.map((quantity, i) => [String(i), quantity.label]);
    const log = element('input', { type: 'checkbox', change: () => { this.log = log.checked; this.draw(); } });
    this.node = element('div', { class: 'panel' },
      element('div', { class: 'controls' },
        menu('Quantity', choices, String(quantities.indexOf(first)), (i) => {
          this.quantity = quantities[i];
          this.draw();
        }),
        element('label', { class: 'check' }, log, element('span', {}, 'log')), this.reset),
      element('div', { class: 'plot' }, this.box, this.readout));
    new ResizeObserver(() => this.fit()).observe(this.box);
  }

  draw() {
    if (this.chart) this.chart.destroy();
    this.readout.hidden = true;
    this.box.setAttribute('aria-label', `${this.quantity.label} over ${this.shared.axis}s: arrow keys read values, Escape resets the zoom`);
    this.reset.disabled = true;
    this.chart = draw_chart(this.box, { ...this.shared, quantity: this.quantity, log: this.log }, {
      setCursor: (chart, curves) => this.show_values(chart, curves),
      setScale: (chart) => this.on_scale(chart),
      setSelect: (chart) => { if (chart.select.width > 0 || chart.select.height > 0) this.reset.disabled = false; },
    });
    this.chart.over.addEventListener('dblclick', () => this.show_all());
  }

  fit() {
    const width = this.box.clientWidth;
    if (this.chart && width > 0 && width !== this.chart.width) this.chart.setSize({ width, height: this.chart.height });
  }

  show_group(index, shown) {
    this.chart.batch(() => [1, 2, 3].forEach((i) => this.chart.setSeries(3 * index + i, { show: shown })));
  }

  show_all() {
    this.chart.setData(this.chart.data, true);
    this.reset.disabled = true;
  }

  /** Data attributes make the visible ranges available to tests. */
  on_scale(chart) {
    const { x, y } = chart.scales;
    this.node.dataset.x = `${x.min} ${x.max}`;
    this.node.dataset.y = `${y.min} ${y.max}`;
  }

  on_key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === 'Escape') this.show_all();
    if (!move || !this.chart.data[0].length) return;
    event.preventDefault();
    const xs = this.chart.data[0], old = this.chart.cursor.idx;
    const index = old == null ? (move > 0 ? 0 : xs.length - 1) : Math.min(Math.max(old + move, 0), xs.length - 1);
    this.chart.setCursor({ left: this.chart.valToPos(xs[index], 'x'), top: 20 });
  }

  show_values(chart, curves) {
    const { idx, idxs, left } = chart.cursor;
    this.readout.hidden = idx == null || left < 0;
    if (this.readout.hidden) return;
    const colors = theme();
    const rows = curves.map((points, group) => {
      if (this.shared.hidden.has(group) || idxs[3 * group + 1] == null) return null;
      const x = chart.data[0][idxs[3 * group + 1]], point = points.find((p) => p.x === x);
      const away = x === chart.data[0][idx] ? '' : ` at ${short(x)}`;
      const text = `${mean_and_spread(point)}${away}`;
      const line = element('div', {}, swatch(group, colors), `${this.shared.groups[group].label} `,
        element('b', {}, text), element('small', {}, point.n > 1 ? ` n = ${point.n}` : ''));
      return { mean: point.mean, line };
    });
    const sorted = rows.filter((row) => row).sort((a, b) => b.mean - a.mean).slice(0, 12);
    const title = element('div', {}, `${this.shared.axis} ${short(chart.data[0][idx])}`);
    this.readout.replaceChildren(title, ...sorted.map((row) => row.line));
    const place = chart.over.offsetLeft + left;
    const width = this.readout.offsetWidth;
    const right = place + 14 + width <= this.box.clientWidth;
    this.readout.style.left = `${Math.max(0, right ? place + 14 : place - 14 - width)}px`;
  }
}

/** A short piece of the group's line. */
function swatch(index, colors) {
  const { color, dash } = look(index, colors);
  const style = dash.length === 0 ? 'solid' : dash[0] < 3 ? 'dotted' : 'dashed';
  const node = element('span', { class: 'swatch', 'aria-hidden': 'true' });
  node.style.borderTop = `3px ${style} ${color}`;
  return node;
}

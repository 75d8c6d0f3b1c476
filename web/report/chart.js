// One chart of one quantity, drawn by uPlot: one line per group (mean over its runs) in a band (range or deviation).

const kDashes = [[], [8, 4], [9, 4, 2, 4], [2, 3]];
const kColors = 7;

function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const series = Array.from({ length: kColors }, (_, i) => read(`--series-${i}`));
  return { text: read('--muted'), grid: read('--grid'), series };
}

/** Colours repeat after kColors groups, with another dash. */
function look(index, colors) {
  return { color: colors.series[index % kColors], dash: kDashes[Math.floor(index / kColors) % kDashes.length] };
}

/** [x, mean, high, low] of a group; values that are not positive are left out on a logarithmic axis. */
function columns_of(points, band, log) {
  const keep = (value) => (value == null || (log && value <= 0) ? null : value);
  const high = (p) => (p.mean == null ? null : band === 'sd' ? p.mean + p.sd : p.max);
  const low = (p) => (p.mean == null ? null : band === 'sd' ? p.mean - p.sd : p.min);
  const column = (get) => points.map((p) => keep(get(p)));
  return [points.map((p) => p.x), column((p) => p.mean), column(high), column(low)];
}

/** Three series per group: the mean, and the two edges of the band, which are not drawn as lines. */
function series_of(group, index, points, shown, colors) {
  const { color, dash } = look(index, colors);
  const common = { show: shown, scale: 'y', label: group.label };
  const edge = { ...common, stroke: 'transparent', width: 0, points: { show: false } };
  const few = points.length <= 30;
  return [{ ...common, stroke: color, width: 2, dash, points: { show: few, size: 5, fill: color } }, edge, edge];
}

/** The closest point with a value, for series that share the x axis with denser ones. */
function nearest_index(chart, series, index) {
  const values = chart.data[series];
  for (let away = 0; away < values.length; ++away) {
    if (values[index - away] != null) return index - away;
    if (values[index + away] != null) return index + away;
  }
  return null;
}

/** A logarithmic axis ends where the data end, not at a power of ten; uPlot's ticks need a round start. */
function log_range(chart, min, max) {
  return min == null ? [0.1, 1] : [uPlot.rangeLog(min, max, 10, false)[0], 1.15 * max];
}

/** Ticks between whole epochs or steps only where there are points between them. */
function increments(view) {
  const whole = [1, 2, 5, 10, 20, 50].flatMap((i) => [1, 100, 1e4, 1e6].map((factor) => i * factor)).sort((a, b) => a - b);
  return view.axis === 'epoch' && view.quantity.kind === 'steps' ? [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, ...whole] : whole;
}

function axes_of(view, colors) {
  const common = { stroke: colors.text, grid: { stroke: colors.grid, width: 1 }, ticks: { show: false }, labelSize: 20,
    font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif' };
  const text = (chart, values) => values.map((value) => (value == null ? '' : short(value)));
  return [{ ...common, label: view.axis, values: text, incrs: increments(view), size: 32 },
    { ...common, label: view.quantity.label, values: text, size: 52 }];
}

/**
 * view: {groups, hidden: Set of group indices, quantity, axis: 'epoch' | 'step', band: 'range' | 'sd', log}.
 * listeners: uPlot's events by name, each called with the chart and the curves.
 */
function draw_chart(box, view, listeners) {
  const colors = theme();
  const curves = view.groups.map((group) => curve(group.runs, view.quantity, view.axis));
  const data = uPlot.join(curves.map((points) => columns_of(points, view.band, view.log)));
  const series = curves.flatMap((points, i) => series_of(view.groups[i], i, points, !view.hidden.has(i), colors));
  const bands = curves.map((_, i) => ({ series: [3 * i + 2, 3 * i + 3], fill: look(i, colors).color + '2e' }));
  const options = {
    width: Math.max(box.clientWidth, 200), height: 300, padding: [12, 12, 0, 0],
    series: [{}, ...series], bands, legend: { show: false }, axes: axes_of(view, colors),
    scales: { x: { time: false }, y: view.log ? { distr: 3, range: log_range } : {} },
    cursor: { drag: { x: true, y: true, uni: 30, dist: 5 }, dataIdx: nearest_index, y: false,
      points: { size: (chart, i) => (i % 3 === 1 ? 8 : 0) } },
    hooks: Object.fromEntries(Object.entries(listeners).map(([name, tell]) => [name, [(chart) => tell(chart, curves)]])),
  };
  return new uPlot(options, data, box);
}

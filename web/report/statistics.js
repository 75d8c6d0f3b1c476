// What can be plotted, and means over the runs of a group.

const kPercent = 100;
const kNotFinite = 'nan';  // represents a number that is not finite
/** Known quantities, in the order of the menus: [table, column, label, factor]. */
const kQuantities = [
  ['epochs', 'test_accuracy', 'test accuracy [%]', kPercent],
  ['epochs', 'test_loss', 'test loss', 1],
  ['epochs', 'train_loss', 'train loss', 1],
  ['epochs', 'train_accuracy', 'train accuracy [%]', kPercent],
  ['epochs', 'gap', 'train − test accuracy [points]', kPercent],
  ['epochs', 'train_eval_loss', 'train loss after the epoch', 1],
  ['epochs', 'train_eval_accuracy', 'train accuracy after the epoch [%]', kPercent],
  ['epochs', 'val_loss', 'held-out loss', 1],
  ['epochs', 'val_accuracy', 'held-out accuracy [%]', kPercent],
  ['epochs', 'weight_norm', 'weight norm after the epoch', 1],
  ['epochs', 'clip_factor', 'clipping factor, mean of the epoch', 1],
  ['epochs', 'noise_clip_factor', 'clipping factor of the noise, mean of the epoch', 1],
  ['steps', 'train_loss', 'train loss of single steps', 1],
  ['steps', 'train_accuracy', 'train accuracy of single steps [%]', kPercent],
  ['steps', 'lr', 'learning rate', 1],
  ['steps', 'batch', 'batch', 1],
  ['steps', 'grad_norm', 'gradient norm', 1],
  ['steps', 'noise_norm', 'noise norm', 1],
  ['steps', 'weight_norm', 'weight norm', 1],
  ['steps', 'clip_factor', 'clipping factor', 1],
  ['steps', 'noise_clip_factor', 'clipping factor of the noise', 1],
  ['steps', 'penalty', 'ghost penalty', 1],
  ['steps', 'penalty_norm', 'norm of the penalty\'s gradient', 1],
  ['steps', 'fisher_trace', 'trace of the Fisher matrix', 1],
  ['steps', 'noise_scale', 'noise scale', 1],
  ['steps', 'temperature', 'temperature', 1],
  ['steps', 'noise_temperature', 'noise temperature', 1],
  ['epochs', 'images_per_s', 'images/s', 1],
  ['epochs', 'seconds', 'seconds since the start', 1],
];

/** The known quantities that have a number, then columns without a label of their own. */
function quantities_of(runs) {
  const there = (kind, column) => runs.some((run) => (run[kind][column] || []).some(Number.isFinite));
  const found = kQuantities.filter(([kind, column]) => there(kind, column));
  const known = new Set(kQuantities.map(([kind, column]) => kind + column));
  for (const kind of ['epochs', 'steps']) {
    for (const column of new Set(runs.flatMap((run) => Object.keys(run[kind])))) {
      const told = known.has(kind + column) || known.has('epochs' + column) || known.has('steps' + column);
      if (!told && column !== 'step' && column !== 'epoch' && there(kind, column)) found.push([kind, column, column, 1]);
    }
  }
  return found.map(([kind, column, label, factor]) => ({ kind, column, label, factor }));
}

/** Train accuracy, epoch by epoch: measured after the epoch if the run did so, otherwise averaged during it. */
function train_accuracy(run) {
  return run.epochs.train_eval_accuracy || run.epochs.train_accuracy || [];
}

/** Train minus test accuracy, as a column that is plotted but not saved with the raw ones. */
function add_gap(run) {
  const test = run.epochs.test_accuracy || [];
  const gap = train_accuracy(run).map((train, i) => {
    return train == null || test[i] == null ? null : Number.isFinite(train - test[i]) ? train - test[i] : kNotFinite;
  });
  Object.defineProperty(run.epochs, 'gap', { value: gap, enumerable: false });
}

/** Mean, sample standard deviation (divisor n − 1) and range of the numbers among `values`. */
function statistics(values) {
  const numbers = values.filter(Number.isFinite);
  const n = numbers.length;
  if (n === 0) return { n, mean: null, sd: null, min: null, max: null };
  const mean = numbers.reduce((sum, value) => sum + value, 0) / n;
  const squares = numbers.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { n, mean, sd: n > 1 ? Math.sqrt(squares / (n - 1)) : 0, min: Math.min(...numbers), max: Math.max(...numbers) };
}

function median(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return null;
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/** Epochs done after `step` steps: linear between the ends of epochs, even if the batch changes. */
function epoch_of_step(run, step) {
  const ends = run.epochs.step || [], numbers = run.epochs.epoch || [];
  const found = ends.findIndex((end) => end >= step);
  const last = found < 0 ? ends.length - 1 : found;
  if (last < 0) return null;
  const [s0, e0] = last > 0 ? [ends[last - 1], numbers[last - 1]] : [0, 0];
  return e0 + ((step - s0) * (numbers[last] - e0)) / (ends[last] - s0);
}

/** {x, statistics} ascending in x. If a run has a value that is not finite ("nan"), the curve has a gap there; missing
 * values (null) are ignored. */
function curve(runs, quantity, axis) {
  const points = new Map();
  for (const run of runs) {
    const rows = run[quantity.kind], values = rows[quantity.column] || [];
    values.forEach((value, i) => {
      const x = axis === 'step' ? rows.step[i] : quantity.kind === 'epochs' ? rows.epoch[i] : epoch_of_step(run, rows.step[i]);
      if (x == null || value == null) return;
      if (!points.has(x)) points.set(x, []);
      points.get(x).push(value === kNotFinite ? null : value * quantity.factor);
    });
  }
  const sorted = [...points.entries()].sort((a, b) => a[0] - b[0]);
  return sorted.map(([x, values]) => ({ x, ...(values.includes(null) ? statistics([]) : statistics(values)) }));
}

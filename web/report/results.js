// Tables: the last epoch of each group and of each of its runs; the keys in which configurations differ.

const kStates = { finished: 'finished', unfinished: 'unfinished', diverged: 'diverged' };

function last(values) {
  return values && values.length ? values[values.length - 1] : null;
}

function epochs_done(run) {
  return last(run.epochs.epoch) || 0;
}

function state_text(run) {
  const done = `${epochs_done(run)} of ${run.planned} epochs`;
  if (run.state === 'finished') return 'finished';
  return run.state === 'diverged' ? `diverged, ${done}` : `unfinished, ${done}`;
}

function state_badge(run) {
  return element('span', { class: `state ${kStates[run.state]}`, title: run.note || null }, state_text(run));
}

/** What runs said of their health, behind the mouse; in full with their raw numbers. Nothing if they said nothing. */
function warnings_badge(runs) {
  const warned = runs.filter((run) => run.warnings.length > 0);
  if (warned.length === 0) return [];
  const title = warned.map((run) => `seed ${run.seed}: ${run.warnings.join('; ')}`).join('\n');
  const seeds = runs.length === 1 ? '' : `, seed${warned.length === 1 ? '' : 's'} ${warned.map((run) => run.seed).join(', ')}`;
  return [element('div', { class: 'state unfinished', title }, `warning${seeds}`)];
}

/** What a row shows of a run: its last epoch, never its best. */
function last_epoch(run) {
  const percent = (value) => (Number.isFinite(value) ? kPercent * value : value);
  return {
    test: percent(last(run.epochs.test_accuracy)), train: percent(last(train_accuracy(run))),
    gap: percent(last(run.epochs.gap)), loss: last(run.epochs.test_loss), speed: median(run.epochs.images_per_s || []),
  };
}

const kColumns = [['test', 2], ['train', 2], ['gap', 2], ['loss', 3], ['speed', 0]];

function run_row(run) {
  const numbers = last_epoch(run);
  const text = (key, digits) => (numbers[key] === kNotFinite ? 'not finite'
    : Number.isFinite(numbers[key]) ? numbers[key].toFixed(digits) : '–');
  const link = (text) => element('a', { href: `#${run.id}` }, text);
  return element('tr', { class: 'run', hidden: true },
    element('th', { scope: 'row' }, link(run.path)),
    kColumns.map(([key, digits]) => element('td', { class: 'number' }, link(text(key, digits)))),
    element('td', {}, run.seed), element('td', {}, state_badge(run), warnings_badge([run])),
    element('td', { class: 'software', title: provenance_text(run) }, software_cell([run])));
}

/** The runs that reached their last epoch; if there are none, those that finished any epoch, and the row says so. */
function counted(group) {
  const whole = group.runs.filter((run) => epochs_done(run) >= run.planned);
  return whole.length > 0 ? whole : group.runs.filter((run) => epochs_done(run) > 0);
}

function group_state(group) {
  const bad = group.runs.filter((run) => run.state !== 'finished');
  const used = counted(group).length, all = group.runs.length;
  const badges = bad.slice(0, 3).map((run) => element('div', {}, `seed ${run.seed}: `, state_badge(run)));
  const repeated = new Set(group.runs.map((run) => run.seed)).size < all;
  const twice = repeated ? [element('div', { class: 'state unfinished' }, 'repeated seeds')] : [];
  const warned = warnings_badge(group.runs);
  if (bad.length === 0) return [element('span', { class: 'state finished' }, 'finished'), ...warned, ...twice];
  const more = bad.length > 3 ? [element('div', {}, `and ${bad.length - 3} more`)] : [];
  const ended = group.runs.some((run) => epochs_done(run) >= run.planned);
  const mean = used === 0 ? 'no epoch finished' : ended ? `mean of ${used} of ${all}` : 'none reached its last epoch';
  return [element('div', {}, mean), ...badges, ...more, ...warned, ...twice];
}

function group_body(group, index) {
  const runs = group.runs.map(run_row);
  const button = expander(`${group.runs.length === 1 ? '1 run' : `${group.runs.length} runs`}`,
    (open) => runs.forEach((row) => { row.hidden = !open; }));
  const numbers = counted(group).map(last_epoch);
  const seeds = group.runs.flatMap((run, i) => [i > 0 ? ', ' : '', element('a', { href: `#${run.id}` }, run.seed)]);
  const row = element('tr', { class: 'group' },
    element('th', { scope: 'row' }, group.swatch = swatch(index, theme()), group.label, ' ', button),
    kColumns.map(([key, digits]) => element('td', { class: 'number' },
      mean_and_spread(statistics(numbers.map((number) => number[key])), digits))),
    element('td', {}, seeds), element('td', {}, group_state(group)),
    element('td', { class: 'software' }, software_cell(group.runs)));
  return element('tbody', {}, row, runs);
}

function results_table(groups, title) {
  const header = ['Group', 'Test accuracy [%]', 'Train accuracy [%]', 'Gap [points]', 'Test loss', 'Images/s', 'Seeds', 'State',
    'Software'];
  const measured = groups.some((group) => group.runs.some((run) => run.epochs.train_eval_accuracy));
  const train = measured ? 'Train accuracy is measured after the epoch if train.eval_train asks for it, otherwise averaged during it. '
    : 'Train accuracy is averaged during the last epoch. ';
  const explanation = 'Last epoch, mean ± standard deviation (divisor n − 1) over the runs that reached it. ' + train +
    'Gap: train − test. Images/s: median of a run’s epochs. Seeds link to the raw numbers.';
  return table(`Results of ${title}`, explanation, header, groups.map(group_body), 'results');
}

/** Keys in rows, groups in columns: only the keys that differ; the configurations below have the rest. */
function configurations(data, groups) {
  const own = (key) => key !== 'seed';
  const values = (group, i) => [...new Set(group.runs.map((run) => run.config[i]))].join(' | ');
  const differing = data.keys.map((key, i) => [key, groups.map((group) => values(group, i))])
    .filter(([key, cells]) => own(key) && (new Set(cells).size > 1 || cells.some((cell) => cell.includes(' | '))));
  const whole = groups.map((group) => element('details', {}, element('summary', {}, `Complete configuration of ${group.label}`),
    element('pre', {}, group.runs[0].toml)));
  if (differing.length === 0) return [element('p', {}, 'The runs differ only in their seed.'), ...whole];
  const rows = differing.map(([key, cells]) => element('tr', {}, element('th', { scope: 'row' }, element('code', {}, key)),
    cells.map((cell) => element('td', {}, cell))));
  const header = ['Key', ...groups.map((group) => group.label)];
  return [...table('Configurations', 'Keys that differ between groups.', header, rows, 'configuration'), ...whole];
}

// Raw numbers of each run, and figures with the data files next to them.

function file_name(path, ending) {
  return path.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[-.]+/, '') + ending;
}

function epoch_table(run) {
  const names = Object.keys(run.epochs);
  const count = names.length ? run.epochs[names[0]].length : 0;
  const text = (value) => (value == null ? '' : value === kNotFinite ? 'not finite' : String(value));
  const rows = Array.from({ length: count }, (_, i) =>
    element('tr', {}, names.map((name) => element('td', { class: 'number' }, text(run.epochs[name][i])))));
  return table(`Epochs of ${run.path}`, null, names, rows, 'raw');
}

function run_details(run) {
  const steps = (run.steps.step || []).length;
  const thinned = run.every > 1 ? ` (every ${run.every}th record; the run's metrics.jsonl has all)` : '';
  const node = element('details', { id: run.id, class: 'raw-run' },
    element('summary', {}, element('b', {}, run.path), ` ${run.group.label}, seed ${run.seed} `, state_badge(run)));
  // Filled when first opened: a report may hold hundreds of runs.
  node.addEventListener('toggle', () => {
    if (node.childElementCount > 1) return;
    node.append(
      element('p', {}, 'Save: ', save_link('epochs.csv', file_name(run.path, '-epochs.csv'), 'text/csv', () => csv_of(run.epochs)),
        steps ? [', ', save_link('steps.csv', file_name(run.path, '-steps.csv'), 'text/csv', () => csv_of(run.steps)), thinned] : [],
        ', ', save_link('config.toml', file_name(run.path, '-config.toml'), 'text/plain', () => run.toml)),
      run.note ? element('p', {}, run.note) : '',
      ...run.warnings.map((warning) => element('p', { class: 'warning' }, `Warning: ${warning}`)),
      element('p', { class: 'provenance' }, provenance_text(run)),
      ...epoch_table(run).filter((node) => node), element('details', {}, element('summary', {}, 'Configuration'), element('pre', {}, run.toml)));
  });
  return node;
}

/** One table of the last epochs of all runs. */
function all_runs_csv(data) {
  const columns = { run: [], model: [], data: [], group: [], seed: [], state: [], epoch: [], planned: [],
    commit: [], libtorch: [], device: [] };
  const names = [...new Set(data.runs.flatMap((run) => Object.keys(run.epochs)))].filter((name) => name !== 'epoch');
  for (const name of names) columns[name] = [];
  for (const run of data.runs) {
    const known = { run: run.path, model: run.group.model, data: run.group.data, group: run.group.label, seed: run.seed,
      state: run.state, epoch: epochs_done(run), planned: run.planned, commit: values_of([run], 'commit').join(' '),
      libtorch: values_of([run], 'libtorch').join(' '), device: values_of([run], 'device').join(' ') };
    for (const name of Object.keys(columns)) columns[name].push(name in known ? known[name] : last(run.epochs[name]));
  }
  return csv_of(columns);
}

function raw_section(data) {
  return element('section', { id: 'raw', 'aria-labelledby': 'raw-title' }, element('h2', { id: 'raw-title' }, 'Raw numbers'),
    element('p', {}, save_link('Last epochs of all runs (CSV)', 'runs.csv', 'text/csv', () => all_runs_csv(data))),
    data.runs.map(run_details));
}

function figure_node(figure, folder) {
  const url = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(figure.svg);
  const link = save_link(figure.name, figure.name, 'image/svg+xml', () => figure.svg);
  return element('figure', {}, element('img', { src: url, alt: figure.title || `${folder.path}/${figure.name}` }),
    element('figcaption', {}, figure.title ? `${figure.title} ` : '', link));
}

function file_link(file) {
  if (file.text == null) return element('span', {}, `${file.name} (${short(file.bytes / 1e6)} MB, not embedded)`);
  const type = file.name.endsWith('.json') ? 'application/json' : 'text/csv';
  return save_link(file.name, file.name, type, () => file.text);
}

function figures_section(data) {
  const folders = data.folders.map((folder) => element('article', {}, element('h3', {}, folder.path), items_of(folder),
    element('div', { class: 'figures' }, folder.figures.map((figure) => figure_node(figure, folder))),
    folder.files.length ? element('p', { class: 'files' }, 'Numbers: ',
      folder.files.flatMap((file, i) => [i > 0 ? ', ' : '', file_link(file)])) : ''));
  return element('section', { id: 'figures', 'aria-labelledby': 'figures-title' },
    element('h2', { id: 'figures-title' }, 'Figures'), folders);
}

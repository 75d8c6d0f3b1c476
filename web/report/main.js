// Builds the page from the data in it.

function count(number, one, many) {
  return `${number} ${number === 1 ? one : many}`;
}

/** Adds anchors and seeds, and lets groups and runs refer to each other. */
function prepare(data) {
  const seed = data.keys.indexOf('seed');
  data.runs.forEach((run, i) => {
    run.id = `run-${i}`;
    run.seed = run.config[seed];
    add_gap(run);
  });
  for (const group of data.groups) {
    group.runs = group.runs.map((i) => data.runs[i]);
    for (const run of group.runs) run.group = group;
  }
}

function summary_text(data) {
  const figures = data.folders.reduce((sum, folder) => sum + folder.figures.length, 0);
  const parts = [];
  if (data.runs.length) parts.push(`${count(data.runs.length, 'run', 'runs')} in ${count(data.groups.length, 'group', 'groups')}`);
  if (figures) parts.push(count(figures, 'figure', 'figures'));
  return `${parts.join(' and ')} from ${data.sources.join(', ')}. Written by covnoise ${data.version}.`;
}

/** Groups of one model and data set, in their order. */
function settings_of(groups) {
  const settings = new Map();
  for (const group of groups) {
    const title = `${group.model} on ${group.data}`;
    if (!settings.has(title)) settings.set(title, []);
    settings.get(title).push(group);
  }
  return [...settings.entries()];
}

function problems_box(problems) {
  return element('section', { class: 'problems', 'aria-label': 'Problems' },
    element('p', {}, 'The report leaves out what could not be read:'),
    element('ul', {}, problems.map((problem) => element('li', {}, problem))));
}

/** A link to a run opens its details, even if it is followed a second time. */
function open_run(hash) {
  const target = document.getElementById(hash.slice(1));
  if (!target || target.tagName !== 'DETAILS') return;
  target.open = true;
  target.scrollIntoView();
}

function watch_links() {
  addEventListener('click', (event) => {
    const link = event.target.closest && event.target.closest('a[href^="#run-"]');
    if (link) setTimeout(() => open_run(link.hash));
  });
  addEventListener('hashchange', () => open_run(location.hash));
  open_run(location.hash);
}

/** Canvases do not follow style sheets: draws them again in the current colours. */
function watch_colors(sections) {
  const repaint = () => sections.forEach((section) => {
    section.panels.forEach((panel) => panel.draw());
    if (section.repaint) section.repaint();
    section.groups.forEach((group, i) => {
      const fresh = swatch(i, theme());
      group.swatch.replaceWith(fresh);
      group.swatch = fresh;
    });
  });
  const on_paper = (printing) => () => {
    document.documentElement.classList.toggle('printing', printing);
    repaint();
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
  addEventListener('beforeprint', on_paper(true));
  addEventListener('afterprint', on_paper(false));
}

function build(data) {
  prepare(data);
  document.getElementById('summary').textContent = summary_text(data);
  const sections = settings_of(data.groups).map(([title, groups], i) => (
    { ...section_of(data, title, groups, `setting-${i}`), groups }));
  const links = sections.map(({ title, id }) => [title, id]);
  const page = document.getElementById('report');
  if (data.problems.length) page.append(problems_box(data.problems));
  page.append(...sections.map((section) => section.node));
  if (data.folders.length) {
    page.append(figures_section(data));
    links.push(['Figures', 'figures']);
  }
  if (data.runs.length) {
    page.append(raw_section(data));
    links.push(['Raw numbers', 'raw']);
  }
  document.getElementById('contents').append(...links.map(([title, id]) => element('a', { href: `#${id}` }, title)));
  sections.forEach((section) => section.panels.forEach((panel) => panel.draw()));
  watch_colors(sections);
  watch_links();
}

build(JSON.parse(document.getElementById('report-data').textContent));

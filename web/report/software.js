// What trained a run: its software.json, and whether the runs of a group agree on it.

const kUnknown = 'unknown';

/** What trained a run, from its first step to its last: more than one where other software resumed it. */
function software_of(run) {
  const { resumed = [], ...first } = run.software;
  return [first, ...resumed.map((entry) => entry.software)];
}

function software_text(software) {
  if (Object.keys(software).length === 0) return 'unknown software';
  const build = [software.commit && `commit ${software.commit}`, software.build, software.compiler].filter(Boolean);
  const device = software.gpu ? `${software.gpu} (${software.device}, CUDA ${software.cuda})` : software.device;
  return [`covnoise ${software.covnoise || kUnknown} (${build.join(', ')})`, `LibTorch ${software.libtorch || kUnknown}`,
    device, software.processors && `${software.processors} processors`].filter(Boolean).join(', ');
}

/** One sentence, for the details of a run. */
function provenance_text(run) {
  const [first] = software_of(run);
  const resumed = (run.software.resumed || []).map((entry) => `; resumed from step ${entry.step} by ${software_text(entry.software)}`);
  return `Trained by ${software_text(first)}${resumed.join('')}.`;
}

/** The values of a key in the software of these runs, each once. */
function values_of(runs, key) {
  return [...new Set(runs.flatMap(software_of).map((software) => software[key] || kUnknown))];
}

/** A commit in a column: 8 digits, and whether the source tree had changes. */
function short_commit(commit) {
  return commit.replace(/^([0-9a-f]{8})[0-9a-f]+/, '$1');
}

/** The commits and LibTorch versions of a run or a group; a difference within a group stands out. */
function software_cell(runs) {
  const line = (one, many, values) => (values.length === 1 ? element('div', {}, `${one} ${values[0]}`)
    : element('div', { class: 'state unfinished' }, `${values.length} ${many}: ${values.join(', ')}`));
  const commits = values_of(runs, 'commit').map(short_commit), versions = values_of(runs, 'libtorch');
  if ([...commits, ...versions].every((value) => value === kUnknown)) return [kUnknown];
  return [line('commit', 'commits', commits), line('LibTorch', 'LibTorch versions', versions)];
}

// node page_check.mjs CHROMIUM PAGE [PICTURE.png]: opens a report and uses it. Prints what is wrong, with exit code 1.
// The page is the one that page_test.cpp makes: two groups of one setting, of three runs and of two, and a figure.
import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, page, picture] = process.argv.slice(2);
const url = pathToFileURL(page).href;
const wrong = [];
const expect = (truth, what) => { if (!truth) wrong.push(what); };

/** Coloured pixels of the first chart: axes and text are grey. Copied, because reading back a canvas slows it down. */
const kInk = `(() => {
  const chart = document.querySelector('.panel canvas');
  const copy = Object.assign(document.createElement('canvas'), { width: chart.width, height: chart.height });
  const context = copy.getContext('2d', { willReadFrequently: true });
  context.drawImage(chart, 0, 0);
  const { data } = context.getImageData(0, 0, copy.width, copy.height);
  const colored = (i) => Math.max(...data.slice(i, i + 3)) - Math.min(...data.slice(i, i + 3)) > 60;
  let ink = 0;
  for (let i = 0; i < data.length; i += 4) ink += data[i + 3] > 0 && colored(i);
  return ink;
})()`;
const kRange = "document.querySelector('.panel').dataset.x.split(' ').map(Number)";
const kResetOff = "document.querySelector('.panel .controls button').disabled";
const text = (selector) => `document.querySelector(${JSON.stringify(selector)}).textContent`;

/** Position of the first chart's plot area in the window. */
async function plot_area(browser) {
  return JSON.parse(await browser.evaluate(`(() => {
    const over = document.querySelector('.panel .u-over');
    over.scrollIntoView({ block: 'center' });
    const { left, top, width, height } = over.getBoundingClientRect();
    return JSON.stringify({ left, top, width, height });
  })()`));
}

async function check_content(browser) {
  expect(await browser.evaluate("document.querySelectorAll('.panel canvas').length") === 2, 'two charts');
  expect(await browser.evaluate(kInk) > 300, 'curves in the first chart');
  const cells = await browser.evaluate("[...document.querySelectorAll('tr.group')].map((row) => row.cells[1].textContent)");
  // Seeds 0, 1, 2 end at 90, 91, 92 %: mean 91, sample standard deviation 1. Of the other two runs one is unfinished.
  expect(cells.join('|') === '91.00 ± 1.00|80.00', `means of the groups, not ${cells.join('|')}`);
  expect((await browser.evaluate(text('.results'))).includes('unfinished, 1 of 3 epochs'), 'an unfinished run, said so');
  const warnings = await browser.evaluate("[...document.querySelectorAll('tr.group td div[title]')].map((box) => `${box.textContent}: ${box.title}`)");
  expect(warnings.join('|') === 'warning, seed 2: seed 2: the loss <b> is above that of guessing', `what a run said of its health, not ${warnings}`);
  expect((await browser.evaluate(text('h2'))).includes('lenet on folder:</script>'), 'the name of the data, as text');
  expect(await browser.evaluate("document.querySelector('figure img').naturalWidth") > 0, 'the figure');
  expect((await browser.evaluate(text('.paper-item td'))) === 'MNIST, MLP </td>', 'the table of an item of the paper, as text');
  expect((await browser.evaluate(text('.paper-item'))).includes('A note'), 'the notes of an item');
  expect((await browser.evaluate(text('.configuration'))).includes('train.batch'), 'keys that differ');
}

/** The first group has one commit; of the second one run was resumed by other software, and one says nothing. */
async function check_software(browser) {
  const cells = await browser.evaluate("[...document.querySelectorAll('tr.group td.software')].map((cell) => cell.textContent)");
  expect(cells[0] === 'commit 01234567-dirtyLibTorch 2.11.0', `the software of a group, not ${cells[0]}`);
  expect(cells[1] === '3 commits: aaaaaaaa, bbbbbbbb, unknown3 LibTorch versions: 2.11.0, 2.12.0, unknown',
    `different software within a group, not ${cells[1]}`);
  expect(await browser.evaluate("document.querySelectorAll('td.software .unfinished').length") === 4,
    'differences stand out, in the group and in its resumed run');
  const title = await browser.evaluate("document.querySelectorAll('tr.run td.software')[3].title");
  expect(title.includes('NVIDIA <i> (cuda, CUDA 12.8)') && title.includes('resumed from step 5 by covnoise 0.2.1'),
    `what trained a run, not ${title}`);
}

async function check_toggles(browser) {
  const both = await browser.evaluate(kInk);
  await browser.evaluate("document.querySelector('button.toggle').focus()");
  await browser.key('Enter', '\r');
  await browser.settle();
  expect(await browser.evaluate("document.querySelector('button.toggle').getAttribute('aria-pressed')") === 'false',
    'Enter switches a group off');
  const one = await browser.evaluate(kInk);
  expect(one < 0.8 * both, `less ink without a group: ${one} after ${both}`);
  await browser.evaluate("document.querySelector('button.toggle').click()");
  await browser.settle();
  expect(await browser.evaluate(kInk) === both, 'the same picture with the group again');
}

async function check_zoom(browser) {
  const area = await plot_area(browser), whole = await browser.evaluate(kRange);
  const [from, to, middle] = [area.left + 0.2 * area.width, area.left + 0.7 * area.width, area.top + area.height / 2];
  await browser.mouse('mouseMoved', from, middle);
  expect(await browser.evaluate("!document.querySelector('.readout').hidden"), 'values under the pointer');
  await browser.mouse('mousePressed', from, middle, 1);
  for (const x of [from + 20, (from + to) / 2, to]) await browser.mouse('mouseMoved', x, middle);
  await browser.mouse('mouseReleased', to, middle, 1);
  await browser.settle();
  const zoomed = await browser.evaluate(kRange);
  expect(zoomed[0] > whole[0] && zoomed[1] < whole[1], `a smaller range after a drag: ${zoomed} in ${whole}`);
  expect(!await browser.evaluate(kResetOff), 'a zoom that can be reset');
  for (const count of [1, 2]) {
    await browser.mouse('mousePressed', to, middle, count);
    await browser.mouse('mouseReleased', to, middle, count);
  }
  await browser.settle();
  expect(String(await browser.evaluate(kRange)) === String(whole), 'the whole range after a double click');
  expect(await browser.evaluate(kResetOff), 'no zoom to reset');
}

async function check_menus(browser) {
  const choose = (selector, value) => browser.evaluate(`(() => {
    const select = document.querySelector(${JSON.stringify(selector)});
    select.value = [...select.options].find((option) => option.text.includes(${JSON.stringify(value)})).value;
    select.dispatchEvent(new Event('change'));
  })()`);
  await choose('.curves > .controls select', 'steps');
  expect(String(await browser.evaluate(kRange)) === '10,30', 'steps on the x axis');
  for (const quantity of ['noise norm', 'train − test', 'learning rate', 'test loss']) {
    await choose('.panel select', quantity);
    await browser.settle();
    expect(await browser.evaluate(kInk) > 100, `a curve of ${quantity}`);
  }
}

async function check_raw_numbers(browser) {
  await browser.evaluate("document.querySelector('tr.group td a').click()");
  await browser.settle();
  const open = "document.querySelector('details.raw-run[open]')";
  expect((await browser.evaluate(`${open}.textContent`)).includes('0.9'), 'the numbers of a run behind its seed');
  expect(await browser.evaluate(`${open}.querySelector('.warning') === null`), 'no warning of a run without one');
  await browser.evaluate("document.querySelectorAll('tr.group td a')[2].click()");
  await browser.settle();
  expect((await browser.evaluate(text('details.raw-run[open] .warning'))) === 'Warning: the loss <b> is above that of guessing',
    'the warning of a run with its numbers');
  const provenance = await browser.evaluate(`${open}.querySelector('.provenance').textContent`);
  expect(provenance.startsWith('Trained by covnoise 0.2.0 (commit 0123456789ab-dirty'), `what trained it, not ${provenance}`);
  const saved = await browser.evaluate(`new Promise((done) => {
    const link = ${open}.querySelector('a.save');
    link.addEventListener('click', (event) => { event.preventDefault(); fetched(link.href).then(done); });
    const make = URL.createObjectURL;
    const fetched = () => URL.made.text();
    URL.createObjectURL = (blob) => { URL.made = blob; return make.call(URL, blob); };
    link.click();
  })`);
  expect(saved.startsWith('step,epoch,train_loss'), `a CSV file, not ${saved.slice(0, 40)}`);
  expect(saved.trim().split('\n').length === 4, 'a header and three epochs');
}

async function check_dark_and_narrow(browser) {
  await browser.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: 'dark' }] });
  await browser.send('Emulation.setDeviceMetricsOverride', { width: 390, height: 800, deviceScaleFactor: 1, mobile: true });
  await browser.settle();
  expect(await browser.evaluate("getComputedStyle(document.body).backgroundColor") === 'rgb(20, 23, 28)', 'a dark page');
  expect(await browser.evaluate('document.documentElement.scrollWidth') <= 390, 'a page as wide as a telephone');
  expect(await browser.evaluate(kInk) > 100, 'curves on a dark page');
}

const browser = await Browser.start(program);
try {
  await browser.send('Emulation.setDeviceMetricsOverride', { width: 1280, height: 900, deviceScaleFactor: 1, mobile: false });
  await browser.open(url);
  const checks = [check_content, check_software, check_toggles, check_zoom, check_menus, check_raw_numbers, check_dark_and_narrow];
  for (const check of checks) await check(browser);
  const fetched = browser.requests.filter((request) => request !== url && !/^(data|blob):/.test(request));
  expect(fetched.length === 0, `nothing fetched, but ${fetched}`);
  expect(browser.errors.length === 0, `no complaints, but ${browser.errors}`);
  if (picture) writeFileSync(picture, Buffer.from((await browser.send('Page.captureScreenshot')).data, 'base64'));
} catch (error) {
  wrong.push(error.stack);
} finally {
  await browser.close();
}
for (const what of wrong) console.log(`expected: ${what}`);
process.exit(wrong.length > 0 ? 1 : 0);

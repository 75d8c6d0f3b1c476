// Drives a headless Chromium over the DevTools protocol on a pipe; needs node 18 and no package.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const kPatience = 60000;  // milliseconds; an answer takes a few

function within(limit, what, promise) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`no answer: ${what}`)), limit); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class Browser {
  /** Requests other than for the page itself, and everything the page complains about. */
  requests = [];
  errors = [];
  #next = 1;
  #waiting = new Map();
  #loaded = new Map();  // what waits for a page to load, by its loader

  static async start(program) {
    const browser = new Browser();
    browser.profile = mkdtempSync(join(tmpdir(), 'covnoise-browser-'));
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
      '--disable-background-networking', '--hide-scrollbars', '--remote-debugging-pipe',
      `--user-data-dir=${browser.profile}`, 'about:blank'];
    browser.process = spawn(program, flags, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    browser.exited = new Promise((resolve) => browser.process.once('exit', resolve));
    browser.process.once('error', (error) => browser.#fail(error));
    browser.exited.then(() => browser.#fail(new Error(`${program} ended`)));
    browser.#listen();
    const { targetInfos } = await browser.send('Target.getTargets');
    const { targetId } = targetInfos.find((target) => target.type === 'page');
    browser.session = (await browser.send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
    for (const domain of ['Page', 'Runtime', 'Network', 'Log']) await browser.send(`${domain}.enable`);
    await browser.send('Page.setLifecycleEventsEnabled', { enabled: true });
    return browser;
  }

  #listen() {
    let rest = '';
    this.process.stdio[4].setEncoding('utf8').on('data', (chunk) => {
      const messages = (rest + chunk).split('\0');
      rest = messages.pop();
      for (const message of messages) this.#receive(JSON.parse(message));
    });
  }

  #receive({ id, result, error, method, params }) {
    if (id) {
      const { resolve, reject } = this.#waiting.get(id);
      this.#waiting.delete(id);
      return error ? reject(new Error(error.message)) : resolve(result);
    }
    if (method === 'Page.lifecycleEvent' && params.name === 'load') this.#load(params.loaderId).resolve();
    if (method === 'Network.requestWillBeSent') this.requests.push(params.request.url);
    if (method === 'Runtime.exceptionThrown') {
      this.errors.push(params.exceptionDetails.exception?.description || params.exceptionDetails.text);
    }
    if (method === 'Runtime.consoleAPICalled' && ['error', 'warning', 'assert'].includes(params.type)) {
      this.errors.push(params.args.map((argument) => argument.value ?? argument.description).join(' '));
    }
    if (method === 'Log.entryAdded' && params.entry.level !== 'verbose') this.errors.push(params.entry.text);
  }

  #fail(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  /** A promise that the loader's page has loaded, created on first use. */
  #load(loader) {
    if (!this.#loaded.has(loader)) {
      let resolve;
      const promise = new Promise((done) => { resolve = done; });
      this.#loaded.set(loader, { promise, resolve });
    }
    return this.#loaded.get(loader);
  }

  send(method, params = {}) {
    const id = this.#next++;
    const message = { id, method, params };
    if (this.session) message.sessionId = this.session;
    this.process.stdio[3].write(JSON.stringify(message) + '\0');
    const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
    return within(kPatience, method, answer);
  }

  async open(url) {
    const { loaderId } = await this.send('Page.navigate', { url });
    await within(kPatience, url, this.#load(loaderId).promise);
    await this.settle();
  }

  /** The value of an expression in the page. */
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate',
      { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description}`);
    return result.value;
  }

  /** Waits until the page has drawn everything requested so far. */
  settle() {
    return this.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))');
  }

  async mouse(type, x, y, count = 0) {
    const pressed = type === 'mouseMoved' ? {} : { button: 'left', clickCount: count };
    await this.send('Input.dispatchMouseEvent', { type, x, y, ...pressed });
  }

  async key(key, text) {
    const code = key === 'Enter' ? 13 : 0;
    for (const type of ['keyDown', 'keyUp']) {
      await this.send('Input.dispatchKeyEvent', { type, key, code: key, text, windowsVirtualKeyCode: code });
    }
  }

  async close() {
    this.session = null;
    await this.send('Browser.close').catch(() => {});
    await within(kPatience, 'end of the browser', this.exited);
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

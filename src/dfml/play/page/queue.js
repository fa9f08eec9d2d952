// Work done some pieces at a time, in the order it came, so that a thousand pictures do not start at once.

export class Queue {
  constructor(together, work) {
    Object.assign(this, { together, work, waiting: [], busy: 0, idle: () => {} });
  }

  // Resolves when everything that waits is done.
  add(items) {
    this.waiting.push(...items);
    const done = new Promise((resolve) => {
      const before = this.idle;
      this.idle = () => (before(), resolve());
    });
    for (let i = this.busy; i < this.together; i++) this.#next();
    return done;
  }

  get left() {
    return this.waiting.length + this.busy;
  }

  drop() {
    this.waiting.length = 0;
  }

  async #next() {
    if (this.waiting.length === 0) {
      if (this.busy > 0) return;
      const idle = this.idle;
      this.idle = () => {};
      return idle();
    }
    this.busy++;
    try {
      await this.work(this.waiting.shift());
    } finally {
      this.busy--;
      this.#next();
    }
  }
}

// `work` a little after the last call, and while calls keep coming every `longest` milliseconds; never twice at a time.
export function soon(work, { wait = 120, longest = 1500 } = {}) {
  let timer, first = 0, running = false, again = false;
  async function run() {
    if (running) return void (again = true);
    (running = true), (first = 0);
    try {
      await work();
    } finally {
      running = false;
      if (again) (again = false), call();
    }
  }
  function call() {
    const now = performance.now();
    first ||= now;
    clearTimeout(timer);
    timer = setTimeout(run, Math.max(0, Math.min(wait, first + longest - now)));
  }
  return call;
}

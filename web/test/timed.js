/** Times pages in a real headless Chromium; benchmarks/in_browser.py asks and reports. */

import { chromium } from "playwright-core";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const { chromium: executablePath, file, openings, drags, many, zooms, sliders } = JSON.parse(process.argv[2]);

const told = { paint_s: [] };
for (let i = 0; i < openings; i++) told.paint_s.push(await inBrowser(opened));
if (drags) Object.assign(told, await inBrowser(dragged));
console.log(JSON.stringify(told));

/** With a browser of its own, so that nothing is kept from one to the next. */
async function inBrowser(work) {
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    return await work(page);
  } finally {
    await browser.close();
  }
}

/** Seconds from the begin of opening to a timeline that was zoomed by a key and drawn anew. */
async function opened(page) {
  await page.addInitScript(() => {
    const watch = new MutationObserver(() => {
      const canvas = document.querySelector("#timeline [role=application]");
      if (!canvas) return;
      watch.disconnect();
      const press = () => {
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "w", bubbles: true }));
        requestAnimationFrame(() => setTimeout(() => (globalThis.reactedMs = performance.now()), 0));
      };
      requestAnimationFrame(() => setTimeout(press, 0));
    });
    watch.observe(document, { childList: true, subtree: true });
  });
  await page.goto(`file://${file}`);
  await page.waitForFunction(() => globalThis.reactedMs);
  return (await page.evaluate(() => globalThis.reactedMs)) / 1000;
}

async function dragged(page) {
  await page.goto(`file://${file}`);
  await page.locator("h1").waitFor();
  await page.waitForTimeout(2000);
  const drag_ms = await slide(page, drags);
  const before = await held(page);
  await slide(page, many);
  await zoom(page, zooms);
  const after = await held(page);
  return { drag_ms, held_before: before, held_after: after };
}

/** Milliseconds from a slider's movement to the page drawn anew, one for each movement. */
async function slide(page, count) {
  return page.evaluate(async ({ count, names }) => {
    performance.clearMeasures();
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const value = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
    for (let i = 0; i < count; i++) {
      const input = document.querySelector(`#slide-${names[Math.floor(i / 25) % names.length]}`);
      const place = Math.round(6 * Math.sin(i / 4)) || 1 + (i % 2);
      value.set.call(input, String(place === Number(input.value) ? place + 1 : place));
      input.dispatchEvent(new Event("input", { bubbles: true }));
      await frame();
      await frame();
    }
    return performance.getEntriesByName("paceline-redrawn").map((each) => each.duration);
  }, { count, names: sliders });
}

async function zoom(page, count) {
  await page.evaluate(async (count) => {
    const canvas = document.querySelector("#timeline [role=application]");
    for (let i = 0; i < count; i++) {
      const key = i % 20 < 10 ? "w" : "s";
      canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      await new Promise((done) => requestAnimationFrame(done));
    }
  }, count);
}

/** Bytes of the page's objects, arrays and WebAssembly, garbage collected. */
async function held(page) {
  await page.waitForTimeout(1500);
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize, backingStorageSize = 0 } = await session.send("Runtime.getHeapUsage");
  return usedSize + backingStorageSize;
}

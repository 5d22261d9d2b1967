/**
 * Takes the pictures of docs/images in a real headless Chromium: `node web/test/pictured.js REQUEST`,
 * JSON of `chromium`, `file` (a page), `folder`, and `drag`, where the link's slider stands in each
 * frame of the moving picture. Leaves PNG files; benchmarks/pictures.py asks, and joins the frames.
 */

import { join } from "node:path";
import { chromium } from "playwright-core";

const { chromium: executablePath, file, folder, drag } = JSON.parse(process.argv[2]);
const WIDTH = 1200;
const ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"];

const browser = await chromium.launch({ executablePath, args: ARGUMENTS });
try {
  for (const scheme of ["light", "dark"]) await still(scheme);
  for (const scheme of ["light", "dark"]) await moving(scheme);
} finally {
  await browser.close();
}

async function opened(scheme, height, state = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width: WIDTH, height } });
  const page = await context.newPage();
  const hash = new URLSearchParams(Object.entries(state).map(([name, value]) => [name, JSON.stringify(value)]));
  await page.goto(`file://${file}#${hash}`);
  await page.locator(".parts").waitFor();
  await page.locator(".plot canvas").first().waitFor();
  return page;
}

/** The top of the page, the timeline with a chosen collective, the sliders moved. */
async function still(scheme) {
  const page = await opened(scheme, 1000);
  await page.screenshot({ path: join(folder, `report-${scheme}.png`) });
  await page.locator("#timeline [role=application]").focus();
  await page.keyboard.press("/");
  await page.keyboard.type("all_reduce");
  await page.keyboard.press("Enter");
  await settled(page);
  await page.locator("#timeline").screenshot({ path: join(folder, `report-timeline-${scheme}.png`) });
  await page.locator("#slide-rate").fill("6");
  await page.locator("#whatif .note", { hasText: "matters less than 1 %" }).waitFor();
  await settled(page);
  await page.locator("#whatif").screenshot({ path: join(folder, `report-what-if-${scheme}.png`) });
  await page.context().close();
}

/** One picture for each place of the slider: the timeline above, the sliders below. */
async function moving(scheme) {
  const page = await opened(scheme, 940, { folded: ["recorded/0", "recorded/1"] });
  await page.locator("#slide-rate").fill("1");
  await page.locator("#slide-rate").fill("0");
  await page.waitForTimeout(2500); // the curve is drawn
  await page.evaluate(() => {
    const below = document.querySelector("#whatif").getBoundingClientRect();
    scrollTo(0, scrollY + below.bottom - innerHeight + 8);
  });
  for (const [at, position] of drag.entries()) {
    await page.locator("#slide-rate").evaluate((input, value) => {
      input.value = String(value);
      input.dispatchEvent(new Event("input", { bubbles: true }));
    }, position);
    await settled(page);
    await page.screenshot({ path: join(folder, `drag-${scheme}-${String(at).padStart(3, "0")}.png`) });
  }
  await page.context().close();
}

async function settled(page) {
  await page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));
  }));
}

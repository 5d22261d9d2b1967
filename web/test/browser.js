/** Opens pages in a real headless Chromium and tells what happened; tests/web/test_page.py judges. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

const { chromium: executablePath, pages, moves } = JSON.parse(process.argv[2]);
const browser = await chromium.launch({ executablePath, args: FLAGS });
const told = {};
try {
  told.sound = await sound(pages.sound);
  told.dark = await dark(pages.sound);
  told.hostile = await hostile(pages.hostile);
  told.plain = await withoutWebAssembly(pages.sound);
  told.cut = await cutShort(pages.cut);
} finally {
  await browser.close();
}
console.log(JSON.stringify(told));

/** A page on a machine without a network; every request and complaint is kept. */
async function opened(file, { scheme = "light", hash = "", before = () => {} } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width: 1200, height: 900 } });
  await context.setOffline(true);
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const seen = { requests: [], complaints: [] };
  page.on("request", (request) => seen.requests.push(request.url()));
  page.on("console", (message) => message.type() === "error" && seen.complaints.push(message.text()));
  page.on("pageerror", (error) => seen.complaints.push(error.message));
  page.on("dialog", (dialog) => {
    seen.complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.addInitScript(before);
  await page.goto(`file://${file}${hash}`);
  await page.locator("h1").waitFor();
  return { page, seen };
}

async function sound(file) {
  const { page, seen } = await opened(file);
  const found = { title: await page.title(), heading: await page.locator("h1").innerText() };
  found.steps = [];
  for (const move of moves) found.steps.push(await stepAfter(page, move));
  await page.locator("#timeline canvas").focus();
  await page.keyboard.press("ArrowDown");
  const first = await chosenAfter(page, null);
  found.chosen = await page.locator(".details h3").innerText();
  found.waits = await page.locator(".details").innerText();
  await page.keyboard.press("w");
  await page.keyboard.press("/");
  await page.keyboard.type("gloo");
  await page.keyboard.press("Enter");
  found.match = await page.locator(".details h3").innerText();
  await chosenAfter(page, first);
  found.hash = await page.evaluate(() => location.hash);
  found.download = await csv(page);
  found.violations = await violations(page);
  found.sheets = sheetsOf(await page.pdf({ format: "A4", printBackground: true }));
  await page.context().close();
  const again = await opened(file, { hash: found.hash });
  found.restored = await again.page.locator(".details h3").innerText();
  await again.page.context().close();
  return { ...found, ...seen };
}

/** What the fragment says is chosen, once that is no longer what it was. */
async function chosenAfter(page, was) {
  const found = await page.waitForFunction((before) => {
    const chosen = new URLSearchParams(location.hash.slice(1)).get("chosen");
    return chosen !== before && chosen;
  }, was);
  return found.jsonValue();
}

/** The step that the page shows once sliders and switches stand so. */
async function stepAfter(page, { sliders, scenario }) {
  await page.locator("input[name=scenario]").nth(scenario).check();
  for (const [name, position] of Object.entries(sliders)) {
    await page.locator(`#slide-${name}`).fill(String(position));
  }
  await page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));
  }));
  return Number(await page.locator(".big").getAttribute("data-step-ns"));
}

async function csv(page) {
  const waits = page.waitForEvent("download");
  await page.getByRole("group", { name: "Export Where each rank’s time goes" }).getByText("CSV").click();
  return readFileSync(await (await waits).path(), "utf8");
}

async function violations(page) {
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(() => globalThis.axe.run());
  return found.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
}

function sheetsOf(pdf) {
  return pdf.toString("latin1").match(/\/Type\s*\/Page\b/g)?.length ?? 0;
}

async function dark(file) {
  const { page } = await opened(file, { scheme: "dark" });
  await page.locator("#timeline canvas").focus();
  await page.keyboard.press("ArrowDown");
  const found = await violations(page);
  const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.context().close();
  return { violations: found, ground };
}

async function hostile(file) {
  const { page, seen } = await opened(file);
  const found = {
    text: await page.locator("main").innerText(),
    title: await page.title(),
    images: await page.locator("img, iframe, object, a[href^=javascript]").count(),
    ran: await page.evaluate(() => "hacked" in window),
  };
  await page.context().close();
  return { ...found, ...seen };
}

async function withoutWebAssembly(file) {
  const { page, seen } = await opened(file, { before: () => delete globalThis.WebAssembly });
  const found = {
    words: await page.locator("#whatif .lacks").innerText(),
    disabled: await page.locator("#slide-compute").isDisabled(),
    heading: await page.locator("h1").innerText(),
  };
  await page.context().close();
  return { ...found, ...seen };
}

async function cutShort(file) {
  const { page } = await opened(file);
  const text = await page.locator("main").innerText();
  await page.context().close();
  return { text };
}

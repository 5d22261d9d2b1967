/** Opens pages in a real headless Chromium and tells what happened; tests/web/test_page.py judges. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];

const LAB_MOVES = [
  { sliders: {}, scenario: 0 },
  { sliders: { rate: 8 }, scenario: 0 },
  { sliders: { rate: -4, latency: 4 }, scenario: 0 },
  { sliders: { rate: 0, latency: 0, forward: 4 }, scenario: 0 },
  { sliders: { forward: 0 }, scenario: 1 },
];

const { chromium: executablePath, pages, moves, live: address } = JSON.parse(process.argv[2]);
const browser = await chromium.launch({ executablePath, args: FLAGS });
const told = {};
try {
  told.sound = await sound(pages.sound);
  told.dark = await dark(pages.sound);
  told.hostile = await hostile(pages.hostile);
  told.plain = await withoutWebAssembly(pages.sound);
  told.cut = await cutShort(pages.cut);
  told.lab = await onSharedCores(pages.lab);
  told.live = await served(address);
} finally {
  await browser.close();
}
console.log(JSON.stringify(told));

/** A page on a machine without a network; every request and complaint is kept. */
async function opened(file, { scheme = "light", hash = "", before = () => {} } = {}) {
  return visited(`file://${file}${hash}`, { scheme, before, offline: true });
}

async function visited(url, { scheme = "light", before = () => {}, offline = false } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width: 1200, height: 900 } });
  await context.setOffline(offline);
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
  await page.goto(url);
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

async function onSharedCores(file) {
  const { page, seen } = await opened(file);
  const steps = [];
  for (const move of LAB_MOVES) steps.push(await stepAfter(page, move));
  const greyed = await page.locator("#slide-communication").isDisabled();
  await page.context().close();
  return { steps, greyed, ...seen };
}

async function served(url) {
  const { page, seen } = await visited(url);
  const asks = page.locator(".ask");
  const predict = async (strategies) => {
    const before = await page.locator("input[name=scenario]").count();
    await asks.getByLabel("Strategies").fill(strategies);
    await asks.getByRole("button", { name: "Predict" }).click();
    await page.locator("input[name=scenario]").nth(before).waitFor();
    return stepAfter(page, { sliders: {}, scenario: before });
  };
  const found = { step: await predict("bf16+workers(count=4)") };
  await asks.locator("summary").click();
  await asks.getByLabel("Cluster (YAML)").fill("hosts: 2\nlink: {rate: 4Gbps, latency: 50us}\n");
  found.elsewhere = await predict("bf16");
  await asks.getByLabel("Strategies").fill("bf61");
  await asks.getByRole("button", { name: "Predict" }).click();
  await asks.getByText("bf61").waitFor();
  found.refused = await asks.innerText();
  const complaints = seen.complaints.filter((each) => !each.includes("400"));
  await asks.getByRole("button", { name: "Search" }).click();
  await asks.getByText(/keep the job as it is|Show it/).waitFor();
  found.found = await asks.innerText();
  found.violations = await violations(page);
  await page.getByRole("link", { name: "other run" }).click();
  await page.locator("h1").waitFor();
  found.other = await page.title();
  await page.context().close();
  return { ...found, complaints };
}

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

const EMULATED = [
  "--headless", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

/** What to do with a page: by the name under which a request asks for it. */
const WAYS = {
  sound, dark, hostile, withoutWebAssembly, damaged, alone, slackWhileDragging, drawings,
  onSharedCores, compared, framed, framedPlan, real, served,
};

const { chromium: executablePath, visits, moves, loose } = JSON.parse(process.argv[2]);
const browser = await chromium.launch({ executablePath, args: FLAGS });
let emulating = null; // started where it is needed
const told = {};
try {
  for (const [name, [way, place]] of Object.entries(visits)) told[name] = await WAYS[way](place);
} finally {
  await browser.close();
  await emulating?.close();
}
console.log(JSON.stringify(told));

async function twoFrames(page) {
  await page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));
  }));
}

/** A page on a machine without a network; every request and complaint is kept. */
async function opened(file, { scheme = "light", hash = "", before = () => {}, by = browser } = {}) {
  return visited(`file://${file}${hash}`, { scheme, before, offline: true, by });
}

async function visited(url, { scheme = "light", before = () => {}, offline = false, by = browser } = {}) {
  const context = await by.newContext({ colorScheme: scheme, viewport: { width: 1200, height: 900 } });
  await context.setOffline(offline);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000); // a crowded machine takes its time
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
  await page.locator("#timeline [role=application]").focus();
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
  found.download = await exported(page, "Where each rank’s time goes", "CSV");
  found.picture = await exported(page, "What the step hangs on", "SVG");
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

/** The step that the page shows once sliders and switches stand so. A page that has just opened draws its
 * timeline first; from its first answer on it answers within a frame. */
async function stepAfter(page, { sliders, scenario }) {
  await page.locator("#whatif .answer .parts").waitFor();
  await page.locator("input[name=scenario]").nth(scenario).check();
  for (const [name, position] of Object.entries(sliders)) {
    await page.locator(`#slide-${name}`).fill(String(position));
  }
  await twoFrames(page);
  return Number(await page.locator(".big").getAttribute("data-step-ns"));
}

/** What a chart's button saves. */
async function exported(page, chart, format) {
  const waits = page.waitForEvent("download");
  await page.getByRole("group", { name: `Export ${chart}` }).getByText(format).click();
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
  await page.locator("#timeline [role=application]").focus();
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

async function damaged(file) {
  const { page, seen } = await opened(file);
  const text = await page.locator("main").innerText();
  await page.context().close();
  return { text, ...seen };
}

/** One op on one rank: nothing communicates, nothing repeats. */
async function alone(file) {
  const { page, seen } = await opened(file);
  const found = { text: await page.locator("main").innerText(), step: await stepAfter(page, { sliders: { compute: 4 }, scenario: 0 }) };
  await page.context().close();
  return { ...found, ...seen };
}

/** Two runs: why the second is slower, where a cause leads, and what analyses tell. */
async function compared(file) {
  const { page, seen } = await opened(file);
  const section = page.locator("section[aria-labelledby=difference-title]");
  const found = { text: await section.innerText() };
  await section.locator("tbody button.link").first().click();
  found.chosen = await page.locator(".details h3").innerText();
  await page.evaluate(() => document.querySelectorAll(".more details").forEach((each) => (each.open = true)));
  found.topics = await page.locator(".more summary").allInnerTexts();
  found.violations = await violations(page);
  await page.locator(".more details", { hasText: "Kernels on all ranks" }).locator("button.link").first().click();
  found.kernel = await page.locator(".details h3").innerText();
  await page.context().close();
  return { ...found, ...seen };
}

/** A real run: it opens, leads into its timeline, and answers its sliders: of compute, and of host calls
 * where it has any, for the step of a small job hangs on them alone. */
async function real(file) {
  const { page, seen } = await opened(file);
  const heading = await page.locator("h1").innerText();
  await page.locator(".headline button.link").first().click();
  await page.locator("#timeline [role=application]").focus();
  await page.keyboard.press("ArrowDown");
  const chosen = await page.locator(".details h3").innerText();
  const before = await stepAfter(page, { sliders: {}, scenario: 0 });
  const host = await page.locator("#slide-host").count();
  const after = await stepAfter(page, { sliders: { compute: 4, ...(host && { host: 4 }) }, scenario: 0 });
  await page.context().close();
  return { heading, chosen, before, after, ...seen };
}

/** The page as a notebook frames it: without an address or an origin of its own. */
async function framed(file) {
  const { page, seen } = await opened(file);
  const inside = page.frameLocator("iframe");
  const heading = await inside.locator("h1").innerText();
  await inside.locator("#slide-compute").fill("4");
  await inside.locator("#timeline [role=application]").focus();
  await page.keyboard.press("ArrowDown");
  const chosen = await inside.locator(".details h3").innerText();
  await page.waitForTimeout(400); // the fragment would be written by then
  const step = Number(await inside.locator(".big").getAttribute("data-step-ns"));
  await page.context().close();
  return { heading, chosen, step, ...seen };
}

/** A plan in a notebook's frame, light and dark: what it says, and what axe finds inside and around. */
async function framedPlan(file) {
  const found = { requests: [], complaints: [], violations: [], grounds: [] };
  for (const scheme of ["light", "dark"]) {
    const { page, seen } = await opened(file, { scheme });
    const inside = page.frames()[1];
    await inside.locator("h1").waitFor();
    found.text = await inside.locator("main").innerText();
    found.strategies = await inside.locator("ol code").allInnerTexts();
    found.charts = await inside.locator("canvas, svg").count();
    found.grounds.push(await inside.evaluate(() => getComputedStyle(document.body).backgroundColor));
    found.violations.push(...(await violations(inside)), ...(await violations(page)));
    found.requests.push(...seen.requests);
    found.complaints.push(...seen.complaints);
    await page.context().close();
  }
  return found;
}

/** What is said of the slack of an op of the predicted timeline, before and after a slider moves. */
async function slackWhileDragging(file) {
  const chosen = encodeURIComponent(JSON.stringify({ track: "predicted", op: loose }));
  const { page, seen } = await opened(file, { hash: `#chosen=${chosen}` });
  const said = async () => page.locator(".details dl div", { hasText: "slack" }).locator("dd").innerText();
  const before = await said();
  await stepAfter(page, { sliders: { rate: -4 }, scenario: 0 });
  const after = await said();
  await page.context().close();
  return { before, after, ...seen };
}

/** WebGL2 even where a processor has to emulate it, as on a machine without a graphics card. */
function withWebGl() {
  const open = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, options) {
    return open.call(this, kind, { ...options, failIfMajorPerformanceCaveat: false });
  };
  const extension = WebGL2RenderingContext.prototype.getExtension;
  WebGL2RenderingContext.prototype.getExtension = function (name) {
    return name === "WEBGL_debug_renderer_info" ? null : extension.call(this, name);
  };
}

function withoutWebGl() {
  const open = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, options) {
    return kind === "webgl2" ? null : open.call(this, kind, options);
  };
}

/** The timeline by WebGL2, by the 2D canvas, while WebGL2 is lost, and once it is back. */
async function drawings(file) {
  emulating = await chromium.launch({ executablePath, args: EMULATED });
  const pictures = {};
  const layers = {};
  const { page, seen } = await opened(file, { before: withWebGl, by: emulating });
  await take(page, "webgl2");
  const lose = (what) => page.evaluate((call) => {
    const context = document.querySelector("#timeline .behind").getContext("webgl2");
    globalThis.losing ??= context.getExtension("WEBGL_lose_context");
    globalThis.losing[call]();
  }, what);
  await lose("loseContext");
  await shownBy(page, "hidden");
  await take(page, "lost");
  await lose("restoreContext");
  await shownBy(page, "visible");
  await take(page, "restored");
  const plain = await opened(file, { before: withoutWebGl, by: emulating });
  await take(plain.page, "2d");
  const differ = {};
  for (const name of ["webgl2", "lost", "restored"]) differ[name] = await differing(page, pictures[name], pictures["2d"]);
  differ.colours = await coloursOf(page, pictures.webgl2);
  await page.context().close();
  await plain.page.context().close();
  return { layers, differ, complaints: [...seen.complaints, ...plain.seen.complaints] };

  async function take(from, name) {
    await from.locator(".parts").waitFor();
    await twoFrames(from);
    layers[name] = await from.evaluate(() => document.querySelector("#timeline .behind").style.visibility);
    pictures[name] = (await from.locator("#timeline .canvas").screenshot()).toString("base64");
  }
}

async function shownBy(page, visibility) {
  await page.waitForFunction(
    (wanted) => document.querySelector("#timeline .behind").style.visibility === wanted, visibility,
  );
}

/** The share of pixels of two pictures that a person would tell apart. */
async function differing(page, one, other) {
  const [a, b] = [await pixels(page, one), await pixels(page, other)];
  if (a.length !== b.length) return 1;
  let count = 0;
  for (let at = 0; at < a.length; at += 4) {
    const away = Math.max(...[0, 1, 2].map((channel) => Math.abs(a[at + channel] - b[at + channel])));
    count += away > 48;
  }
  return count / (a.length / 4);
}

async function coloursOf(page, picture) {
  const found = await pixels(page, picture);
  const colours = new Set();
  for (let at = 0; at < found.length; at += 4) colours.add((found[at] << 16) | (found[at + 1] << 8) | found[at + 2]);
  return colours.size;
}

async function pixels(page, picture) {
  const base64 = await page.evaluate(async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data: bytes } = context.getImageData(0, 0, image.width, image.height);
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    return btoa(text);
  }, picture);
  return Buffer.from(base64, "base64");
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
  found.command = await page.locator("#whatif code").innerText();
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

/** How long Perfetto takes to show a trace: `node web/test/perfetto.js REQUEST` prints JSON. */

import { chromium } from "playwright-core";

const { chromium: executablePath, address } = JSON.parse(process.argv[2]);
const ARGUMENTS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const PATIENCE_MS = 300_000;

const browser = await chromium.launch({ executablePath, args: ARGUMENTS });
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const begun = performance.now();
  await page.goto(address);
  await page.locator(".pf-track").first().waitFor({ timeout: PATIENCE_MS });
  console.log(JSON.stringify({ seconds: (performance.now() - begun) / 1000 }));
} finally {
  await browser.close();
}

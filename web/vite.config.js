// Builds src/ into one HTML file, the template that `paceline report` fills: script and styles
// inside, and a content security policy that allows these two alone, by their digests.
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { defineConfig } from "vite";

const TEMPLATE = resolve(import.meta.dirname, "../src/paceline/report/page/template.html");

const ENGINE = resolve(import.meta.dirname, "../src/paceline/wasm/engine.wasm");

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "dist",
    write: false,
    assetsInlineLimit: 1 << 30,
    cssCodeSplit: false,
    modulePreload: false,
    rollupOptions: { input: "src/main.tsx", output: { format: "iife" } },
  },
  plugins: [engine(), { name: "one-file", enforce: "post", generateBundle: (_, bundle) => writeTemplate(bundle) }],
});

/** `virtual:engine` is the module that `make wasm` builds, as base64; empty where it is missing. */
function engine() {
  const id = "virtual:engine";
  const base64 = () => (existsSync(ENGINE) ? readFileSync(ENGINE).toString("base64") : "");
  return {
    name: "engine",
    resolveId: (wanted) => (wanted === id ? `\0${id}` : undefined),
    load: (wanted) => (wanted === `\0${id}` ? `export default "${base64()}";` : undefined),
  };
}

function writeTemplate(bundle) {
  const files = Object.values(bundle);
  const script = files.find((file) => file.type === "chunk").code.replaceAll("</script", "<\\/script");
  const style = files.filter((file) => file.fileName.endsWith(".css")).map((file) => file.source).join("");
  const policy = [
    "default-src 'none'",
    `script-src ${digest(script)} 'wasm-unsafe-eval'`,
    `style-src ${digest(style)}`,
    "img-src data: blob:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const page = readFileSync(resolve(import.meta.dirname, "page.html"), "utf8");
  const parts = { POLICY: policy, STYLE: style, SCRIPT: script };
  writeFileSync(TEMPLATE, page.replace(/%(POLICY|STYLE|SCRIPT)%/g, (_, name) => parts[name]));
}

function digest(text) {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/** The engine's module as base64; empty where it was not built. See vite.config.js. */
declare module "virtual:engine" {
  const base64: string;
  export default base64;
}

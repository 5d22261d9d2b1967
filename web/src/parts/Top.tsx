/** What stands around every page: whose it is, light or dark, and who wrote it. */

import type { ComponentChildren } from "preact";
import { currentTheme, setTheme } from "../charts/palette";
import { shown } from "../format";

interface TopProps {
  title: string;
  /** After the page was turned light or dark. */
  turned?: () => void;
  children?: ComponentChildren;
}

export function Top({ title, turned, children }: TopProps) {
  const turn = () => {
    setTheme(currentTheme() === "dark" ? "light" : "dark");
    turned?.();
  };
  return (
    <header class="top">
      <span class="brand">Paceline</span>
      <span class="run">{shown(title, 80)}</span>
      {children}
      <button class="quiet" onClick={turn}>Light or dark</button>
    </header>
  );
}

export function Written({ version }: { version: string }) {
  return (
    <footer>
      Written by Paceline {version}. This file holds all that it shows and loads nothing from anywhere.
    </footer>
  );
}

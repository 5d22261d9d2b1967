/** Reads what the file holds and shows it. */

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { App, Unreadable } from "./parts/App";
import { openModel } from "./model";
import { unpack } from "./unpack";

const place = document.getElementById("page")!;

async function open(): Promise<void> {
  const holder = document.getElementById("contents")!;
  const contents = await unpack(holder.textContent ?? "");
  holder.remove();
  const model = await openModel(contents);
  place.replaceChildren();
  render(<App model={model} />, place);
  performance.mark("paceline-painted");
}

open().catch((error: Error) => {
  place.replaceChildren();
  render(<Unreadable reason={error.message} />, place);
});

/** Reads what the file holds and shows it. */

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { App } from "./parts/App";
import { PlanPage } from "./parts/PlanAlone";
import { Remains } from "./parts/Remains";
import { openModel } from "./model";
import { Unreadable, unpack } from "./unpack";

const place = document.getElementById("page")!;

async function open(): Promise<void> {
  const holder = document.getElementById("contents")!;
  const contents = await unpack(holder.textContent ?? "");
  holder.remove();
  const page = contents.of === "plan" ? <PlanPage plan={contents} /> : <App model={await openModel(contents)} />;
  place.replaceChildren();
  render(page, place);
  performance.mark("paceline-painted");
}

// The data stand last in the file, so that one that was cut short can still say so.
document.addEventListener("DOMContentLoaded", () => void open().catch((error: Error) => {
  place.replaceChildren();
  render(<Remains reason={error.message} contents={error instanceof Unreadable ? error.remains : null} />, place);
}));

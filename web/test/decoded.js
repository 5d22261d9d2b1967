/**
 * What is read of a container without the engine: `node web/test/decoded.js FILE.pack` prints JSON,
 * the numbers of each column by its name.
 */

import { readFileSync } from "node:fs";
import { opened } from "../src/engine/container.js";
import { decoded } from "../src/engine/decode.js";

const { columns } = await opened(new Uint8Array(readFileSync(process.argv[2])));
console.log(JSON.stringify(Object.fromEntries([...columns].map(([name, one]) => [name, [...decoded(one)]]))));

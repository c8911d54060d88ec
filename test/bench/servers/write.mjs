/** How long one durable write of 100 bytes takes, without any server around it.
 * Arguments: the file, and for how many seconds. */
import { constants, openSync, writeSync } from "node:fs";

const [path = "", seconds = "1"] = process.argv.slice(2);
const { O_WRONLY, O_APPEND, O_CREAT, O_DSYNC } = constants;
const file = openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_DSYNC);
const bytes = Buffer.alloc(100, "x");
const end = performance.now() + 1000 * Number(seconds);
const micros = [];
for (let at = performance.now(); at < end;) {
  writeSync(file, bytes);
  const now = performance.now();
  micros.push(1000 * (now - at));
  at = now;
}
micros.sort((a, b) => a - b);
const quantile = (part) => micros[Math.floor(part * (micros.length - 1))];
process.stdout.write(`${JSON.stringify({
  writes: micros.length, p50: quantile(0.5), p99: quantile(0.99),
})}\n`);

/** What one durable write costs without any server around it.
 * Arguments: the file to write to, for how many seconds, and a journal, whose last line is what is
 * written again and again: the same bytes that a plant store wrote for one plant. */
import { constants, fstatSync, openSync, readSync, writeSync } from "node:fs";

const [path = "", seconds = "1", journal = ""] = process.argv.slice(2);
const source = openSync(journal, "r");
const { size } = fstatSync(source);
const tail = Buffer.alloc(Math.min(size, 4096));
readSync(source, tail, 0, tail.length, size - tail.length);
const line = tail.subarray(tail.lastIndexOf("\n", -2) + 1);

const { O_WRONLY, O_APPEND, O_CREAT, O_DSYNC } = constants;
const file = openSync(path, O_WRONLY | O_APPEND | O_CREAT | O_DSYNC);
const micros = [];
const cpuBefore = process.cpuUsage();
const begin = performance.now();
const end = begin + 1000 * Number(seconds);
let at = begin;
while (at < end) {
  writeSync(file, line);
  const now = performance.now();
  micros.push(1000 * (now - at));
  at = now;
}
const { user, system } = process.cpuUsage(cpuBefore);

micros.sort((a, b) => a - b);
const quantile = (part) => micros[Math.floor(part * (micros.length - 1))];
process.stdout.write(
  `${JSON.stringify({
    bytes: line.length,
    acknowledged: micros.length,
    perSecond: (1000 * micros.length) / (at - begin),
    cpuMicros: (user + system) / micros.length,
    p50: quantile(0.5),
    p99: quantile(0.99),
    p999: quantile(0.999),
    max: quantile(1)
  })}\n`
);

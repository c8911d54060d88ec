/** The log: one line on stderr for each event, text or JSON with pino's members. */
import { hostname } from "node:os";
import { printable } from "../exit.ts";
import type { Host, Log } from "../host.ts";
import type { Config } from "../settings.ts";

/** Pino's numbers. */
const levels = { info: 30, warn: 40, error: 50 };

/**
 * Creates a log that never waits for its reader. It buffers no more than the stream does: 16 KiB on
 * Node 20, 64 KiB on later versions.
 *
 * Lines are dropped and counted while that is full, and while they cannot be written. The next line
 * that gets through is followed by their number.
 */
export function createLog(
  { stderr, pid }: Host,
  format: Config["logFormat"]
): Log {
  const isText = format === "text" || (format === "" && stderr.isTTY);
  const common = { pid, hostname: hostname() };
  let dropped = 0;

  const log: Log = (level, msg, fields) => {
    if (stderr.writableNeedDrain) {
      dropped++;
      return;
    }
    const time = Date.now();
    const line = isText
      ? `${new Date(time).toISOString()} ${level}: ${msg}${fields ? ` ${JSON.stringify(fields)}` : ""}`
      : JSON.stringify({
          level: levels[level],
          time,
          ...common,
          ...fields,
          msg
        });

    stderr.write(`${printable(line)}\n`, (error) => {
      if (error) dropped++;
      else if (dropped > 0 && !stderr.writableNeedDrain) {
        const count = dropped;
        dropped = 0;
        log("warn", "lines were dropped: stderr is full, or stalled", {
          dropped: count
        });
      }
    });
  };
  return log;
}

/** The log: one line for each event on stderr, readable on a terminal, else JSON as pino's. */
import { hostname } from "node:os";
import type { Host } from "./host.ts";

/** Pino's numbers. */
const levels = { info: 30, warn: 40, error: 50 } as const;

/** Tells an event in one sentence; programs find its parts in the fields. */
export type Log = (
  level: keyof typeof levels,
  msg: string,
  fields?: object
) => void;

/**
 * A log that never waits for its reader, nor keeps more than the stream does: 16 KiB on Node 20,
 * 64 KiB on later ones.
 *
 * What comes while that is full is dropped, and counted; how much it was is told when it drains.
 */
export function makeLog({ stderr, pid }: Host): Log {
  const common = { pid, hostname: hostname() };
  let dropped = 0;

  const log: Log = (level, msg, fields) => {
    if (!stderr.writableNeedDrain) {
      const time = Date.now();
      const line = stderr.isTTY
        ? `${new Date(time).toISOString()} ${level}: ${msg}`
        : JSON.stringify({
            level: levels[level],
            time,
            ...common,
            ...fields,
            msg
          });
      stderr.write(`${line.replace(unsafe, escaped)}\n`);
    } else if (dropped++ === 0) {
      stderr.once("drain", () => {
        log("warn", `${dropped} lines were dropped: stderr's reader stalled`, {
          dropped
        });
        dropped = 0;
      });
    }
  };
  return log;
}

/** What could forge a line, or turn one around on a screen: all controls, C1 too, U+2028 and
 * U+2029, bidirectional controls. JSON.stringify escapes some of them only. */
const unsafe = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

const escaped = (character: string): string =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

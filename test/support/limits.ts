/**
 * Every limit as it is promised, written out: flag, unit, default, lowest and highest value. A test
 * that took them from the table under test would pass whatever that says.
 */
import type { Limits } from "../../src/config.ts";

const kib = 1_024;
const mib = 1_048_576;
const gib = 1_073_741_824;
const minute = 60_000;
const hour = 3_600_000;

type Row = readonly [
  name: keyof Limits,
  flag: string,
  unit: string,
  defaultValue: number,
  min: number,
  max: number
];

const rows: readonly Row[] = [
  ["bodyBytesMax", "--max-body", "bytes", mib, 1, 16 * mib],
  ["headBytesMax", "--max-head", "bytes", 16 * kib, 256, mib],
  ["headFieldsMax", "--max-fields", "fields", 100, 8, 900],
  ["nestingMax", "--max-nesting", "levels", 64, 1, 512],
  ["headMillis", "--head-timeout", "milliseconds", 10_000, 100, hour],
  ["requestMillis", "--request-timeout", "milliseconds", 30_000, 100, hour],
  ["idleMillis", "--idle-timeout", "milliseconds", 65_000, 1_000, hour],
  ["checkMillis", "--timeout-check", "milliseconds", 500, 10, 1_000],
  ["discardBytesMax", "--max-discard", "bytes", 16 * mib, 0, gib],
  ["discardMillis", "--discard-timeout", "milliseconds", 5_000, 10, minute],
  ["connectionsMax", "--max-connections", "connections", 1_024, 1, 1_000_000],
  ["pipelinedMax", "--max-pipelined", "responses", 128, 1, 1_000_000],
  ["bodiesBytesMax", "--max-bodies", "bytes", 64 * mib, 1, 4 * gib],
  ["queueRecordsMax", "--max-queue", "records", 4_096, 1, 1_000_000],
  ["queueBytesMax", "--max-queue-bytes", "bytes", 16 * mib, kib, gib],
  ["batchBytesMax", "--max-batch", "bytes", mib, kib, 64 * mib],
  ["keysBytesMax", "--key-window", "bytes", 64 * mib, 0, gib],
  ["rotationMillis", "--rotation-timeout", "milliseconds", 2_000, 10, minute],
  ["drainMillis", "--drain-timeout", "milliseconds", 10_000, 10, 10 * minute]
];

export const limits = rows.map(
  ([name, flag, unit, defaultValue, min, max]) => ({
    name,
    flag,
    variable: `PLANTS_${flag.slice(2).toUpperCase().replaceAll("-", "_")}`,
    unit,
    defaultValue,
    min,
    max
  })
);

/** What the code can reach: the modules and globals of Node that each file may use. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { modules, modulesOf, type Module } from "./modules.ts";

/** Which files may import a module of Node that reaches something; a folder ends in a slash. */
const capabilities: Readonly<Record<string, readonly string[]>> = {
  "node:fs": [
    "src/journal/exclusive.ts",
    "src/journal/files.ts",
    "src/journal/lock.ts",
    "src/journal/sockets.ts",
    "src/program/serving/listen.ts",
    "src/program/secrets.ts",
    "src/server.ts"
  ],
  "node:net": [
    "src/http/",
    "src/journal/sockets.ts",
    "src/program/",
    "src/nats/"
  ],
  "node:tls": [
    "src/http/",
    "src/journal/sockets.ts",
    "src/program/",
    "src/nats/"
  ],
  "node:http": [
    "src/http/reply.ts",
    "src/http/strict-server.ts",
    "src/program/serving/admin.ts"
  ],
  "node:https": ["src/http/strict-server.ts"],
  "node:crypto": [
    "src/nats/credentials.ts",
    "src/nats/protocol.ts",
    "src/http/bearer.ts",
    "src/journal/keys.ts",
    "src/journal/open.ts",
    "src/journal/sockets.ts",
    "src/json/parse.ts",
    "src/program/serving/access-log.ts",
    "src/program/secrets.ts"
  ],
  "node:diagnostics_channel": ["src/program/serving/access-log.ts"],
  "node:os": [
    "src/nats/server-connection.ts",
    "src/journal/journal.ts",
    "src/journal/sockets.ts",
    "src/program/serving/log.ts",
    "src/system.ts"
  ],
  "node:tty": ["src/server.ts"],
  "node:process": [
    "src/http/reply.ts",
    "src/nats/server-connection.ts",
    "src/system.ts"
  ],
  // These reach nothing outside of the process.
  "node:assert": ["src/"],
  "node:buffer": ["src/"],
  "node:events": ["src/"],
  "node:path": ["src/"],
  "node:stream": ["src/"],
  "node:timers": ["src/"],
  "node:url": ["src/"],
  "node:util": ["src/"],
  "node:zlib": ["src/"]
};

/** Globals that reach something, and the only files that may use them. */
const globals: Readonly<Record<string, readonly string[]>> = {
  process: ["src/server.ts"],
  console: ["src/server.ts"],
  globalThis: [],
  global: [],
  fetch: [],
  WebSocket: [],
  EventSource: [],
  Worker: [],
  BroadcastChannel: [],
  navigator: [],
  // Code from strings, and other ways to a module.
  eval: [],
  Function: [],
  require: [],
  ".createRequire": [],
  ".getBuiltinModule": []
};

const isAmong = (name: string, places: readonly string[]): boolean =>
  places.some((place) =>
    place.endsWith("/") ? name.startsWith(place) : name === place
  );

/** The modules and globals that a file must not use. */
function excessOf({ name, imports, names }: Module): readonly string[] {
  const imported = imports
    .filter((from) => !from.startsWith("src/"))
    .filter((from) => {
      const module = from.replace(/^(node:\w+)\/.*$/, "$1");
      return !isAmong(name, capabilities[module] ?? []);
    });
  const used = names.filter(
    (each) =>
      Object.hasOwn(globals, each) && !isAmong(name, globals[each] ?? [])
  );
  return [...imported, ...used].map((what) => `${name} uses ${what}`);
}

test("each file uses only the modules and globals of Node that are listed for it, and no package", () => {
  assert.deepEqual(modules.flatMap(excessOf), []);
});

const controls = [
  ['import { x } from "node:fs";', "node:fs"],
  ['import x from "node:fs/promises";', "node:fs/promises"],
  ['import {\n  x\n} from "node:crypto";', "node:crypto"],
  ['import "node:vm";', "node:vm"],
  ["import 'node:child_process';", "node:child_process"],
  ['export * from "node:worker_threads";', "node:worker_threads"],
  ['export { x } from "node:inspector";', "node:inspector"],
  ['import x from "left-pad";', "left-pad"],
  ['import x from "fs";', "fs"],
  ["process.exit();", "process"],
  ["const { exit } = process;", "process"],
  ["use(console);", "console"],
  ["globalThis.process.exit();", "globalThis"],
  ["await fetch(url);", "fetch"],
  ["new WebSocket(url);", "WebSocket"],
  ["const run = eval;", "eval"],
  ["new Function(text);", "Function"],
  ['require("fs");', "require"],
  ['host.process.getBuiltinModule("fs");', ".getBuiltinModule"]
] as const;

test("the control: each thing that is not listed is found", () => {
  const files = controls.map(([code], index) => [
    `src/control${index}.ts`,
    code
  ]);
  assert.deepEqual(
    modulesOf(Object.fromEntries(files)).flatMap(excessOf),
    controls.map(([, what], index) => `src/control${index}.ts uses ${what}`)
  );
});

test("the control: what only looks like a global is not found", () => {
  const code = `
    import { y } from "node:util";
    import { z } from "./config.js";
    host.process.exit(); // console.log(1)
    const text = "process.exit()", of = { fetch: y, console() {} };
    class A { static process = z; }`;
  assert.deepEqual(modulesOf({ "src/plant.ts": code }).flatMap(excessOf), []);
});

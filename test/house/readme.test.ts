/**
 * Every README, executed: transcripts, commands and examples run, tables are the code's, links
 * lead somewhere. `README_TABLES=write` writes the tables and the transcripts' answers anew.
 */
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { after, test } from "node:test";
import { limitTable } from "../../src/config.ts";
import { metricTable } from "../../src/program/metrics.ts";
import { environmentOf, settingTable, tokenVariable } from "../../src/program/settings.ts";
import { catalogue } from "../../src/http/errors.ts";
import { decodeHeader, decodeRecord } from "../../src/journal/record.ts";
import {
  cleanEnvironment, program, root, run, start, temporaryFolder, token, type Running,
} from "../support/support.ts";

interface Document {
  /** Relative to the project. */
  readonly name: string;
  text: string;
}

const face = documentOf("README.md");
const documents: readonly Document[] = [
  face,
  ...["src", "src/http", "src/json", "src/journal", "src/engines", "src/program", "src/program/recipes",
    "test/bench"]
    .map((folder) => documentOf(`${folder}/README.md`)),
];

function documentOf(name: string): Document {
  return { name, text: readFileSync(join(root, name), "utf8") };
}

const { README_TABLES: mode, PLANT_TEST_NODES: nodes = "", PLANT_TEST_PEERS: peers = "" } =
  process.env;
const isWriting = mode === "write";
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** The document must have this text; when writing, it gets it. */
function holds(document: Document, found: string, wanted: string, mend: string): void {
  if (found === wanted) return;
  if (!isWriting) assert.equal(found, wanted, `${document.name}: ${mend}, or README_TABLES=write`);
  document.text = document.text.replace(found, () => wanted);
  writeFileSync(join(root, document.name), document.text);
}

interface Block {
  readonly document: Document;
  readonly language: string;
  readonly name: string;
  readonly text: string;
}
const blocks: readonly Block[] = documents.flatMap((document) =>
  [...document.text.matchAll(/^```(\w+)(?: (\S+))?\n([\s\S]*?)^```$/gm)].map(
    ([, language = "", name = "", text = ""]) => ({ document, language, name, text })));

function blockOf(language: string, name: string): string {
  const [block, ...others] = blocks.filter((each) => each.name === name);
  assert.ok(block && others.length === 0 && block.language === language, `one block ${name}`);
  return block.text;
}

const servers: Running[] = [];
after(() => servers.map((server) => server.process.kill("SIGKILL")));

async function startIn(cwd: string, bearer = token): Promise<Running> {
  const server = await start({ cwd, env: { PLANTS_TOKEN: bearer } });
  servers.push(server);
  return server;
}

const shell = (command: string, cwd: string, env = {}) => spawnSync("sh", ["-c", command], {
  cwd, encoding: "utf8", env: cleanEnvironment(env), timeout: 60_000,
});

/** A folder that a shell takes for the checkout: the README's commands name dist/server.js. */
function checkout(): string {
  const folder = temporaryFolder();
  symlinkSync(join(root, "dist"), join(folder, "dist"));
  symlinkSync(process.execPath, join(folder, "node"));
  return folder;
}
const withNode = (folder: string) => ({ PATH: `${folder}:${process.env["PATH"]}` });

// Transcripts

/** What differs from run to run: identities, times, checksums. */
const masked = (text: string): string => text.trimEnd()
  .replace(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, "UUID")
  .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
  .replace(/^Date: .*$/gm, "Date: NOW")
  .replace(/"crc":"[\da-f]{8}"/g, '"crc":"CRC"');

/** Runs a transcript, command by command; its outputs in the README's words. */
async function replay(transcript: string): Promise<readonly (readonly [string, string])[]> {
  const folder = checkout();
  if (!transcript.includes("server.js")) {
    writeFileSync(join(folder, "plants.ndjson"), blockOf("ndjson", "example"));
  }
  const outputs: (readonly [string, string])[] = [];
  let server: Running | undefined;
  for (const command of transcript.matchAll(/^\$ (.*)$/gm)) {
    const [, line = ""] = command;
    const bearer = /^PLANTS_TOKEN=(\w+) node dist\/server\.js &$/.exec(line)?.[1];
    if (bearer !== undefined) {
      server = await startIn(folder, bearer);
      outputs.push([line, server.stdout().replace(`:${server.port}`, ":8080").trimEnd()]);
    } else if (line === "kill -9 %1") {
      assert.equal(await server?.end("SIGKILL"), null);
      outputs.push([line, ""]);
    } else {
      const { status, stdout, stderr } = shell(line.replace(":8080", `:${server?.port}`), folder);
      assert.equal(status, 0, stderr);
      outputs.push([line, stdout.replaceAll("\r", "").trimEnd()]);
    }
  }
  await server?.end();
  return outputs;
}

const transcripts = blocks.filter(({ language }) => language === "console");
for (const [index, { document, text }] of transcripts.entries()) {
  test(`transcript ${index + 1}, of ${document.name}, happens as written`, async () => {
    const outputs = await replay(text);
    const found = outputs.map(([line, output]) => `$ ${line}${output && `\n${output}`}\n`).join("");
    if (masked(found) === masked(text)) return;
    if (isWriting) holds(document, text, found, "");
    else assert.equal(masked(found), masked(text));
  });
}

test("the first transcript shows that an acknowledged plant survives kill -9", () => {
  const [first = { text: "" }] = transcripts;
  for (const part of ["kill -9", "curl ", "cat plants.ndjson\n{", "9007199254740993"]) {
    assert.ok(first.text.includes(part), part);
  }
});

// Commands

test("the commands to start and to test are scripts of package.json", () => {
  assert.ok(face.text.includes("```sh\nnpm ci && npm start\nnpm ci && npm test\n```"));
  const { start: startScript, test: testScript, prestart, pretest } = manifest.scripts;
  assert.deepEqual([startScript, prestart], ["node dist/server.js", "npm run --silent build"]);
  assert.match(`${pretest} ${testScript}`, /build.* test\/\*\/\*\.test\.ts$/);
});

test("the commands for tokens make a file that the server accepts", async () => {
  const folder = checkout();
  const [umask, make, serve = ""] = blockOf("sh", "tokens").trim().split("\n");
  const { status, stderr } = shell(`${umask}\n${make}`, folder, withNode(folder));
  assert.equal(status, 0, stderr);
  assert.match(serve, /^node dist\/server\.js --tokens tokens$/);
  const server = await start({
    cwd: folder, args: ["--tokens", "tokens"], env: { PLANTS_TOKEN: "" },
  });
  servers.push(server);
  assert.equal((await post(server.url, stderr.trim())).status, 200);
  await server.end();
});

test("the commands for TLS make a pair that the server serves", async () => {
  const folder = checkout();
  const commands = blockOf("sh", "tls").trim().split("\n");
  const serve = commands.pop() ?? "";
  const { status, stderr } = shell(commands.join("\n"), folder);
  assert.equal(status, 0, stderr);
  const args = serve.replace("node dist/server.js ", "").split(" ");
  assert.deepEqual(args, ["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
  const server = await start({ cwd: folder, args });
  servers.push(server);
  assert.equal(server.stdout(), `plant-store listening on https://127.0.0.1:${server.port}\n`);
  const asked = shell(`curl -s --cacert cert.pem https://localhost:${server.port}/plants`, folder);
  assert.match(asked.stdout, /"error":40101/);
  await server.end();
});

function post(url: string, bearer = token, body = '{"id":1,"name":"Fern"}'): Promise<Response> {
  const headers = { Authorization: `Bearer ${bearer}`, "Content-Type": "application/json" };
  return fetch(`${url}/plants`, { method: "POST", headers, body });
}

test("the commands to verify end well on a sound journal, and rotation as written", async () => {
  const folder = checkout();
  const server = await startIn(folder);
  assert.equal((await post(server.url)).status, 200);
  const rotation = blockOf("sh", "rotation");
  assert.equal(shell(rotation, folder, { PID: `${server.process.pid}` }).status, 0);
  while (!existsSync(join(folder, "plants.ndjson"))) await post(server.url);
  assert.equal((await post(server.url)).status, 200);
  await server.end();
  const verified = shell(`set -e\n${blockOf("sh", "verify")}`, folder, withNode(folder));
  assert.equal(verified.status, 0, verified.stderr);
});

const tools = [
  ["jq", "jq", "--version"], ["digits", "sed", "--version"],
  ["sqlite3", "sqlite3", "--version"], ["duckdb", "duckdb", "--version"],
] as const;
for (const [name, tool, question] of tools) {
  const asked = spawnSync(tool, [question], { encoding: "utf8" });
  const absent = asked.error ? `${tool} is not installed` : false;
  test(`the command for ${name} reads a journal`, { skip: absent }, async (t) => {
    const version = asked.stdout.split("\n")[0] ?? "";
    t.diagnostic(version);
    const folder = checkout();
    const server = await startIn(folder);
    // jq 1.6 rounds: the README says so.
    const ids = /^jq-1\.[0-6]/.test(version) ? ["-7", "2147483648"]
      : ["-9223372036854775808", "9007199254740993", "9223372036854775807"];
    for (const id of ids) {
      assert.equal((await post(server.url, token, `{"id":${id},"name":"Fern"}`)).status, 200);
    }
    const { stdout, stderr } = shell(blockOf("sh", name), folder);
    const rows = stdout.trim().split("\n").map((row) => row.split(/[ \t,]/));
    assert.deepEqual(rows, ids.map((id) => (name === "digits" ? [id] : [id, "Fern"])), stderr);
    await server.end();
  });
}

// Examples

/** A package that has plant-store among its dependencies, and the peers where they are. */
function project(): string {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules", "plant-store"));
  for (const peer of ["express", "fastify"]) {
    const there = join(peers, "node_modules", peer);
    if (peers !== "") symlinkSync(there, join(folder, "node_modules", peer));
  }
  return folder;
}

/** Loaded before an example: its port is any free one, and told on stdout. */
const anyPort = `const { Server } = require("node:net");
const { listen } = Server.prototype;
Server.prototype.listen = function (first, ...others) {
  this.once("listening", () => this.address()?.port && console.log(this.address().port));
  return first === 8080 ? listen.call(this, 0, ...others)
    : listen.call(this, first?.port === 8080 ? { ...first, port: 0 } : first, ...others);
};`;

for (const { name, text } of blocks.filter(({ language }) => language === "js")) {
  const peer = ["express", "fastify"].find((each) => name.startsWith(each));
  const newest = [process.execPath, ...nodes.split(":").filter(Boolean)].find((node) =>
    name !== "dispose.mjs" || Number(execFileSync(node, ["-p", "process.versions.node"], {
      encoding: "utf8" }).split(".")[0]) >= 24);
  const reason = peer !== undefined && peers === "" ? `PLANT_TEST_PEERS names no ${peer}`
    : newest === undefined ? "no Node 24 among this one and PLANT_TEST_NODES" : false;
  test(`the example ${name} works as written`, { skip: reason }, async (t) => {
    t.diagnostic(`run by ${newest}`);
    const folder = project();
    writeFileSync(join(folder, name), text);
    writeFileSync(join(folder, "any-port.cjs"), anyPort);
    const child = spawn(newest ?? "", ["--require", "./any-port.cjs", name], {
      cwd: folder, env: cleanEnvironment({ PLANTS_TOKEN: token }),
    });
    t.after(() => child.kill("SIGKILL"));
    let complaints = "";
    child.stderr.on("data", (data: Buffer) => { complaints += data.toString(); });
    const ended = once(child, "exit");
    if (name !== "dispose.mjs") {
      const [port] = await Promise.race([
        once(child.stdout, "data"), ended.then(() => assert.fail(complaints)),
      ]);
      const base = `http://127.0.0.1:${Number(`${port}`)}${/"(\/v1)"/.exec(text)?.[1] ?? ""}`;
      const answer = await post(base, token, '{"id":9007199254740993,"name":"Fern"}');
      assert.deepEqual([answer.status, await answer.text()], [200, '{"name":"Fern"}\n']);
      assert.equal((await post(base, "weeds")).status, 401);
      if (name === "handler.mjs") assert.equal((await fetch(`${base}/health`)).status, 200);
      child.kill("SIGTERM");
    }
    const [code] = await ended;
    assert.equal(code, /SIGTERM|await using/.test(text) ? 0 : null, complaints);
    assert.match(readFileSync(join(folder, "plants.ndjson"), "utf8"), /"id":9007199254740993,/);
  });
}

test("the worked example of a journal is one", () => {
  const lines = blockOf("ndjson", "example").split("\n");
  const [header = ""] = lines;
  assert.match(decodeHeader(Buffer.from(header)) ?? "", /^[\da-f-]{36}$/);
  let offset = header.length + 1;
  for (const [index, line] of lines.slice(1, -1).entries()) {
    const record = decodeRecord(Buffer.from(line));
    assert.ok(typeof record === "object", line);
    assert.deepEqual([record.seq, record.synced], [index + 1, offset]);
    offset += Buffer.byteLength(line) + 1;
  }
  assert.deepEqual([lines.length > 3, lines.at(-1)], [true, ""]);
});

// Tables

const tableOf = (head: string, rows: readonly (readonly unknown[])[]): string => {
  const columns = head.split("|").length;
  const lines = rows.map((row) => `| ${row.join(" | ")} |`);
  return [`| ${head} |`, `|${" --- |".repeat(columns)}`, ...lines].join("\n");
};
const code = (text: string): string => (text === "" ? "none" : `\`${text}\``);
const grouped = (value: number): string => value.toLocaleString("en");

const files = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts")).map((name) => `src/${name.replaceAll("\\", "/")}`).sort();
const sourceOf = (file: string): string => readFileSync(join(root, file), "utf8");

/** Its lines that are neither blank nor comment. */
const codeLinesOf = (file: string): number => withoutComments(file).split("\n")
  .filter((line) => line.trim() !== "").length;

interface Row {
  readonly error: number;
  readonly when: string;
  readonly close?: boolean;
  readonly headers?: readonly string[];
}

function errorRows(): string {
  const rows: readonly Row[] = Object.values(catalogue);
  return tableOf("error | when | headers", rows.map(({ error, when, close, headers = [] }) => {
    const fields = headers.flatMap((text, index) =>
      (index % 2 === 0 ? [`\`${text}: ${headers[index + 1]}\``] : []));
    return [error, when, [...fields, ...(close ? ["`Connection: close`"] : [])].join(", ")];
  }));
}

function settingRows(): string {
  const rows = Object.values(settingTable).map((setting) => [code(`--${setting.flag}`),
    code(environmentOf(setting)), code(String(setting.defaultValue)), setting.meaning]);
  const last = ["none: `ps` shows flags", code(tokenVariable), "none", "one token itself"];
  return tableOf("flag | environment | default | meaning", [...rows, last]);
}

function limitRows(): string {
  const rows = Object.values(limitTable).map((limit) => {
    const { flag, defaultValue, unit, min, max, reason } = limit;
    return [code(`--${flag}`), code(environmentOf(limit)), `${grouped(defaultValue)} ${unit}`,
      `${grouped(min)} to ${grouped(max)}`, reason];
  });
  return tableOf("flag | environment | default | bounds | reason", rows);
}

/** Code without its comments, strings and patterns left as they are. */
const withoutComments = (file: string): string =>
  sourceOf(file).replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|\s\/\/ .*$/gm, "");

function capabilityRows(): string {
  const users = new Map<string, string[]>();
  const add = (name: string, file: string): void => {
    const known = users.get(name) ?? [];
    if (!known.includes(code(file))) users.set(name, [...known, code(file)]);
  };
  for (const file of files) {
    const text = withoutComments(file);
    for (const [, name = ""] of text.matchAll(/^import (?!type\b)[^;]*?"(node:[\w/]+)"/gm)) {
      add(code(name), file);
    }
    for (const name of ["process", "console", "fetch"]) {
      if (new RegExp(String.raw`(?<![\w.])${name}\s*[.[(]`).test(text)) add(code(name), file);
    }
  }
  const rows = [...users].sort(([a], [b]) => (a < b ? -1 : 1));
  return tableOf("reaches | files", rows.map(([name, list]) => [name, list.join(", ")]));
}

/** The files in the README's order, which is the reader's; new ones last. */
function tourRows(table: string): string {
  const listed = [...table.matchAll(/`(src\/[^`]+)`/g)].map(([, file = ""]) => file);
  const order = [...listed.filter((file) => files.includes(file)),
    ...files.filter((file) => !listed.includes(file))];
  const total = files.reduce((sum, file) => sum + codeLinesOf(file), 0);
  const rows = order.map((file) => {
    const [, first = ""] = /\/\*\*\s+(?:\* )?([\s\S]*?[.?])(?=\s)/.exec(sourceOf(file)) ?? [];
    const sentence = first.replace(/\s*\n \* ?/g, " ").replaceAll("|", "\\|");
    return [code(file), codeLinesOf(file), sentence];
  });
  return tableOf("file | code lines | what it is", [...rows, ["all", grouped(total), ""]]);
}

/** What an auditor asks first, counted. */
function factRows(): string {
  const isProgram = (file: string): boolean => file.startsWith("src/program/");
  const isEngine = (file: string): boolean => file.startsWith("src/engines/");
  const sum = (is: (file: string) => boolean): string =>
    grouped(files.filter(is).reduce((lines, file) => lines + codeLinesOf(file), 0));
  const others = /for version in ([\d ]+);/.exec(sourceOf(".ci/run"))?.[1] ?? "";
  const own = /\d+/.exec(manifest.engines.node)?.[0] ?? "";
  const needed = Object.keys(manifest.dependencies ?? {}).length;
  return tableOf("fact | figure", [
    ["packages needed at run time", needed],
    ["files of source", files.length],
    ["code lines, neither blank nor comment", `${sum((file) => !isProgram(file) && !isEngine(file))}, `
      + `${sum(isProgram)} of the program around them, and ${sum(isEngine)} of an engine on demand`],
    ["versions of Node that are tested", [own, ...others.split(" ")].join(", ")],
  ]);
}

const metricRows = (): string => tableOf("figure | type | what it is",
  Object.entries(metricTable).map(([name, { type, help }]) => [code(name), type, help]));

const tables = {
  facts: factRows,
  metrics: metricRows,
  errors: errorRows,
  settings: settingRows,
  limits: limitRows,
  capabilities: capabilityRows,
  tour: tourRows,
};
for (const [name, make] of Object.entries(tables)) {
  test(`the table of ${name} says what the code says`, () => {
    const marks = new RegExp(`<!-- table: ${name} -->\n([\\s\\S]*?)<!-- end -->`);
    const [document, ...others] = documents.filter(({ text }) => marks.test(text));
    assert.ok(document && others.length === 0, `one table ${name}`);
    const [whole = "", found = ""] = marks.exec(document.text) ?? [];
    const wanted = `<!-- table: ${name} -->\n${make(found)}\n<!-- end -->`;
    holds(document, whole, wanted, `mend the table ${name}`);
  });
}

test("no file of src loads a module that the table of capabilities does not show", () => {
  const ways = /\b(?:import|require|eval|Function|getBuiltinModule|createRequire)\s*\(|globalThis/;
  for (const file of files) {
    // Files of ours, named here, which the table shows like all others.
    const found = ways.exec(withoutComments(file)
      .replace(/import\("(?:\.\/admin|\.\/transfer|\.\.\/engines\/nats)\.ts"\)/, ""));
    assert.equal(found?.[0], undefined, `${file} must load by import statements alone`);
  }
});

test("the table of exit codes has those of the code, and no other", () => {
  const named = files.flatMap((file) => withoutComments(file).split("\n"))
    .filter((line) => /exit/i.test(line))
    .concat(files.flatMap((file) => withoutComments(file).match(/exitCodes = \{[^}]*\}/g) ?? []))
    .flatMap((line) => line.match(/\b(?:6[4-9]|7[0-8])\b/g) ?? []);
  const [, table = ""] = /\| exit code \|[^\n]*\n((?:\|.*\n)+)/.exec(allText()) ?? [];
  const shown = [...table.matchAll(/^\| (\d+) \|/gm)].map(([, number = ""]) => number);
  assert.deepEqual(shown, [...new Set(["0", ...named])].sort());
});

test("the table of development packages is package.json's, and none is needed to run", () => {
  const shown = [...allText().matchAll(/^\| `([@\w/]+)` \| (\d[\d.]+) \| \w/gm)];
  assert.deepEqual(Object.fromEntries(shown.map(([, name, version]) => [name, version])),
    manifest.devDependencies);
  assert.equal(manifest.dependencies, undefined);
});

/** All documents, and the threat model. */
const allText = (): string => [...documents, documentOf(".github/SECURITY.md")]
  .map(({ text }) => text).join("\n");

test("every file, flag and script that the documents name exists", async () => {
  const named = [...allText().matchAll(/`((?:src|test|\.ci|\.github)\/[\w./-]+)`/g)];
  for (const [, file = ""] of named) assert.ok(existsSync(join(root, file)), file);
  assert.ok(named.length > 40, "the control: names are found");
  for (const [, script = ""] of allText().matchAll(/npm run ([\w:]+)/g)) {
    assert.ok(Object.hasOwn(manifest.scripts, script), script);
  }
  const { stdout: help } = await run(["--help"]);
  const nodes = "--permission --allow-net --allow-fs-read --allow-fs-write --env-file";
  const known = `${help} ${nodes}`;
  const given = allText().replace(/npm run bench -- --.*`/g, "");
  for (const [flag] of given.matchAll(/(?<=`)--[\w-]+/g)) assert.ok(known.includes(flag), flag);
  assert.ok(face.text.includes("MIT") && existsSync(join(root, "LICENSE")));
  assert.ok(existsSync(program));
});

/** A heading's name in links, as code hosts make it. */
const anchorOf = (heading: string): string => heading.toLowerCase()
  .replace(/[^\w\s-]/g, "").replaceAll(" ", "-");

test("every link of the documents leads to a file, and to a heading of it", () => {
  let links = 0;
  for (const { name, text } of documents) {
    for (const [, target = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      const [file = "", anchor] = target.split("#");
      const path = file === "" ? join(root, name) : join(root, dirname(name), file);
      assert.ok(existsSync(path), `${name}: ${target}`);
      links++;
      if (anchor === undefined) continue;
      const headings = [...readFileSync(path, "utf8").matchAll(/^#+ (.*)$/gm)];
      const anchors = headings.map(([, heading = ""]) => anchorOf(heading));
      assert.ok(anchors.includes(anchor), `${name}: ${target}, expected one of ${anchors.join()}`);
    }
  }
  assert.ok(links > 8, `the control: ${links} links were seen`);
});

test("the README is a face: at most 220 lines; each folder with more than one file has its own", () => {
  assert.ok(face.text.split("\n").length <= 220, "say it where it is at home");
  const folders = [...new Set(files.map((file) => dirname(file)))];
  for (const folder of folders) {
    assert.ok(existsSync(join(root, folder, "README.md")), folder);
  }
});

test("each README of a folder names every file beside it", () => {
  for (const { name, text } of documents.filter((each) => /^src\/\w+\//.test(each.name))) {
    const beside = files.filter((file) => dirname(file) === dirname(name)).map((file) => basename(file));
    for (const file of beside) assert.ok(text.includes(`| \`${file}\` |`), `${name}: ${file}`);
    const shown = [...text.matchAll(/^\| `(\w+\.ts)` \|/gm)].map(([, file = ""]) => file);
    assert.deepEqual(shown.toSorted(), beside.toSorted(), name);
  }
});

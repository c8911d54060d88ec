/**
 * Hostile requests store nothing: every row of the tables, over raw sockets, on each Node.
 *
 * PLANT_TEST_NODES: other node binaries, separated by colons. PLANT_TEST_ROUNDS, whatever its value:
 * each row in every way on the first server, too.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bodies } from "./hostile-bodies.ts";
import { heads } from "./hostile-heads.ts";
import { orders } from "./hostile-sequences.ts";
import {
  idsOf,
  nameOf,
  runRow,
  titleOf,
  ways,
  type Row,
  type Way
} from "./hostile.ts";
import { plant } from "../support/requests.ts";
import { nodes } from "../support/recipes.ts";
import { answerTo } from "../support/exchange.ts";
import { startProcess, temporaryFolder } from "../support/support.ts";
import { seconds } from "../support/until.ts";

const timeout = seconds(180);
const rows = [...heads, ...bodies, ...orders];

test("of at least 200 rows no two have the same name", () => {
  assert.ok(rows.length >= 200, `${rows.length}`);
  const titles = rows.map(titleOf);
  assert.deepEqual(
    titles.filter((title, index) => titles.indexOf(title) !== index),
    []
  );
});

/** A row whose response never comes fails soon. */
const soon = ["--idle-timeout", "10000"];

/** The ids of the plants of each name, in the journal's order. */
function storedIn(folder: string): Readonly<Record<string, string>> {
  const stored = new Map<string, string>();
  for (const line of readFileSync(join(folder, "plants.ndjson"), "utf8")
    .split("\n")
    .slice(1)) {
    const [, id = "", name = ""] =
      /"plant":\{"id":(-?\d+),"name":"([^"]*)"/.exec(line) ?? [];
    if (id !== "") stored.set(name, `${stored.get(name) ?? ""},${id}`);
  }
  return Object.fromEntries([...stored].sort());
}

const isLong = process.env["PLANT_TEST_ROUNDS"] !== undefined;

/** The program is as strict with an inherited --insecure-http-parser, where a parser decides. */
const settings: readonly (readonly [
  env: Readonly<Record<string, string>>,
  ways: readonly Way[],
  tried: readonly Row[]
])[] = [
  [{}, isLong ? ways : ["after another request"], rows],
  [
    { NODE_OPTIONS: "--insecure-http-parser" },
    ["in pieces"],
    rows.filter(({ closes }) => closes)
  ]
];

for (const { path: node, version } of nodes) {
  test(
    `${version}: a hostile request stores nothing`,
    { timeout },
    async () => {
      for (const [env, own, tried] of settings) {
        const cwd = temporaryFolder();
        const server = await startProcess({ node, cwd, env, args: soon });
        const stored = new Map<string, string>();
        const failed: string[] = [];
        const left = tried.entries();
        const worker = async (): Promise<void> => {
          for (const [index, row] of left)
            for (const way of row.isAlone ? own.slice(0, 1) : own) {
              const name = nameOf(index, ways.indexOf(way));
              const ids = idsOf(row, way);
              if (ids.length > 0) stored.set(name, `,${ids.join()}`);
              await runRow(server.port, row, name, way).catch(
                ({ message }) => void failed.push(`${titleOf(row)}: ${message}`)
              );
            }
        };
        await Promise.all(Array.from({ length: 32 }, worker));
        assert.deepEqual(failed, []);

        // What each row says is stored, and nothing else. A valid request is still served.
        assert.deepEqual(storedIn(cwd), Object.fromEntries([...stored].sort()));
        const answer = await answerTo(server.port, plant);
        assert.equal(answer.status, 200);
        assert.equal(answer.body, '{"name":"Fern"}\n');
        assert.equal(await server.end(), 0);
        assert.equal(server.stderr(), "");
      }
    }
  );
}

/**
 * Hostile requests store nothing: every row of the tables, over raw sockets, on each Node.
 *
 * PLANT_TEST_NODES: other node binaries, separated by colons.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bodies } from "./hostile-bodies.ts";
import { heads } from "./hostile-heads.ts";
import { orders } from "./hostile-sequences.ts";
import { idsOf, nameOf, runRow, titleOf, ways } from "./hostile.ts";
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

/** The program is as strict with an inherited --insecure-http-parser. */
const settings = [
  { env: {}, own: ways },
  { env: { NODE_OPTIONS: "--insecure-http-parser" }, own: ["in pieces"] }
] as const;

for (const { path: node, version } of nodes) {
  test(
    `${version}: a hostile request stores nothing`,
    { concurrency: 32, timeout },
    async (t) => {
      const servers = await Promise.all(
        settings.map(async ({ env, own }) => {
          const cwd = temporaryFolder();
          const server = await startProcess({ node, cwd, env, args: soon });
          return { cwd, server, own, stored: new Map<string, string>() };
        })
      );
      await Promise.all(
        rows.map((row, index) =>
          t.test(titleOf(row), async () => {
            for (const { server, stored, own } of servers) {
              // Other Nodes take each row in one way on each server.
              const isOne = row.isAlone || node !== process.execPath;
              for (const way of isOne ? own.slice(0, 1) : own) {
                const name = nameOf(index, ways.indexOf(way));
                const ids = idsOf(row, way);
                if (ids.length > 0) stored.set(name, `,${ids.join()}`);
                await runRow(server.port, row, name, way);
              }
            }
          })
        )
      );
      // What each row says is stored, and nothing else. A valid request is still served.
      for (const { server, cwd, stored } of servers) {
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

/** What a host does to node's server, to the answers, and to the journal it hands over. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { createPlantHandler, openJournal, type NewPlant } from "../../src/index.ts";
import { cleanEnvironment, program, temporaryFolder, token } from "../support/support.ts";

const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };

test("HEAD is answered on a server that throws for a body that may not be there", async () => {
  const store = await openJournal(join(temporaryFolder(), "plants.ndjson"));
  const server = createServer({ rejectNonStandardBodyWrites: true },
    createPlantHandler({ store, tokens: [token] }));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const { status } = await fetch(`http://127.0.0.1:${port}/plants`, { method: "HEAD", headers });
  assert.equal(status, 405);
  server.close();
  server.closeAllConnections();
  await store.close();
});

const wrappings = ["an append of its own", "a proxy", "nothing"] as const;
for (const wrapping of wrappings) {
  test(`a journal that a host has wrapped in ${wrapping} is asked as it wants`, async () => {
    const journal = await openJournal(join(temporaryFolder(), "plants.ndjson"));
    const seen: bigint[] = [];
    const append = (plant: NewPlant): Promise<void> => {
      seen.push(plant.id);
      return Promise.resolve();
    };
    const stores = {
      "an append of its own": Object.create(journal, { append: { value: append } }) as typeof journal,
      "a proxy": new Proxy(journal, {
        get: (target, name) => (name === "append" ? append : Reflect.get(target, name, target)),
      }),
      "nothing": journal,
    };
    const server = createServer(createPlantHandler({ store: stores[wrapping], tokens: [token] }));
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const body = '{"id":9007199254740993,"name":"Fern"}';
    const answer = await fetch(`http://127.0.0.1:${port}/plants`, { method: "POST", headers, body });
    assert.equal(answer.status, 200);
    const isWrapped = wrapping !== "nothing";
    assert.deepEqual(seen, isWrapped ? [9007199254740993n] : []);
    assert.equal(journal.figures.records, isWrapped ? 0 : 1, "the control: else it is kept");
    server.close();
    server.closeAllConnections();
    await journal.close();
  });
}

test("who does not read stderr does not hold up the end", { timeout: 60_000 }, async () => {
  const child = spawn(process.execPath, [program, "--port", "0", "--log-requests"], {
    cwd: temporaryFolder(),
    env: cleanEnvironment({ PLANTS_TOKEN: token }),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = once(child, "exit");
  const [line] = await once(child.stdout, "data");
  const url = /http:\S+/.exec(`${line}`)?.[0] ?? "";

  // Nobody reads: the pipe and the stream's own buffer are full after some thousand lines.
  const ask = (): Promise<Response> => fetch(`${url}/plants`, { method: "GET", headers });
  for (let round = 0; round < 100; round++) await Promise.all(Array.from({ length: 20 }, ask));
  child.kill("SIGTERM");
  assert.deepEqual(await ended, [0, null]);
  child.stderr.destroy();
});

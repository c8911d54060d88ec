/**
 * The JavaScript that a request costs, in parts of a bare node:http server's.
 *
 * `node --import tsx test/bench/hot.ts [FOLDER...]` prints a table in ten seconds, for this checkout
 * and for builds of others. All servers are in this process, with Duplexes in place of sockets and
 * a disk that keeps nothing. They take turns at bursts of one request on each connection. Only the
 * fastest burst of many counts: a busy machine disturbs the others, and hardly ever all of them.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Duplex } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import type { createPlantServer, PlantStore } from "../../src/index.ts";
import type { Disk } from "../../src/journal/files.ts";
import type { openJournal } from "../../src/journal/journal.ts";
import { token } from "./client.ts";
import { here, root } from "./options.ts";

const connections = 64;
const millis = 10_000;

const plant = '{"id":1,"name":"Fern","tag":"shade"}';
const request = Buffer.from(
  `POST /plants HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${plant.length}\r\n\r\n${plant}`
);

/** Bursts of requests to a server, without a kernel. */
class Bursts {
  readonly #sockets: readonly Duplex[];

  /** The characters of a response, which are the same for all; of all of the current burst. */
  #responseLength = Infinity;
  #received = "";
  #length = 0;
  #done = () => {};

  /** The time of the fastest burst, in milliseconds. */
  least = Infinity;

  constructor(server: Server) {
    this.#sockets = Array.from({ length: connections }, () =>
      this.#connect(server)
    );
  }

  #connect(server: Server) {
    const socket = new Duplex({
      decodeStrings: false,
      read: () => undefined,
      write: (text: string, _encoding, callback) => {
        this.#length += text.length;
        if (this.#responseLength === Infinity) this.#received += text;
        else if (this.#length === connections * this.#responseLength)
          this.#done();
        callback();
      }
    });
    server.emit("connection", socket);
    return socket;
  }

  /** Learns how long a response is. */
  async begin() {
    this.#sockets[0]?.push(request);
    while (!this.#received.includes("}")) await turn();
    if (!this.#received.startsWith("HTTP/1.1 200 "))
      throw new Error(this.#received);
    this.#responseLength = this.#length;
  }

  /** Sends a request on each connection, and waits for all responses. */
  async send() {
    this.#length = 0;
    const done = new Promise<void>((resolve) => {
      this.#done = resolve;
    });
    const begun = performance.now();
    for (const socket of this.#sockets) socket.push(request);
    await done;

    // Counts what follows the last response, too.
    await turn();
    this.least = Math.min(this.least, performance.now() - begun);
  }
}

/** Returns a disk that opens a journal, and keeps only the size of what is appended to it. */
function forgetful(real: Disk): Disk {
  let size = 0;
  let seen: ReturnType<Disk["look"]>;
  const look = () => seen && { ...seen, bytes: size };
  return {
    ...real,
    look: (path) => look() ?? real.look(path),
    open: (path) => {
      const file = real.open(path);
      seen = file.look();
      size = file.size();
      const append = (bytes: Buffer) => {
        size += bytes.length;
        return Promise.resolve(bytes.length);
      };
      return {
        ...file,
        look: () => look() ?? file.look(),
        size: () => size,
        append
      };
    }
  };
}

/** Returns the two servers of a build: one without a store, one without a disk. */
async function serversOf(checkout: string) {
  const load = (name: string) => import(join(checkout, "dist", name));
  const library: { createPlantServer: typeof createPlantServer } =
    await load("index.js");
  const journal: { openJournal: typeof openJournal } =
    await load("journal/journal.js");
  const files: { realDisk: Disk } = await load("journal/files.js");

  // Its header is written and its end is clean, so that opening it again writes nothing.
  const path = join(mkdtempSync(join(folder, "journal-")), "plants.ndjson");
  await (await journal.openJournal(path)).close();
  const disk = forgetful(files.realDisk);
  const store = await journal.openJournal(path, { disk });
  const serve = (store: PlantStore) =>
    library.createPlantServer({ store, tokens: [token] });
  return [
    [`${checkout}: a store that resolves at once`, serve(emptyStore)],
    [`${checkout}: the journal on a disk that keeps nothing`, serve(store)]
  ] as const;
}

const folder = mkdtempSync(join(tmpdir(), "plant-store-hot-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const emptyStore: PlantStore = {
  append: () => Promise.resolve(),
  close: () => Promise.resolve()
};

const common = join(here, "servers", "common.mjs");
const { bar }: { bar: RequestListener } = await import(common);
const checkouts = [root, ...process.argv.slice(2).map((each) => resolve(each))];
const built = await Promise.all(checkouts.map(serversOf));

const bare = new Bursts(createServer(bar));
const rows = [
  ["bare node:http server", bare] as const,
  ...built.flat().map(([name, server]) => [name, new Bursts(server)] as const)
];
for (const [, bursts] of rows) await bursts.begin();

const end = performance.now() + millis;
while (performance.now() < end)
  for (const [, bursts] of rows)
    for (let count = 0; count < 10; count++) await bursts.send();

for (const [name, { least }] of rows) {
  const micros = ((1_000 * least) / connections).toFixed(2);
  const ratio = (least / bare.least).toFixed(2);
  console.log(`${micros} us  ${ratio}  ${name}`);
}
process.exit();

/** Plants over HTTP on a replicated store, and what the stream holds of them afterwards. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { setTimeout } from "node:timers/promises";
import { catalogue } from "../../src/http/errors.ts";
import { createPlantServer } from "../../src/index.ts";
import { decodeMessage } from "../../src/nats/message.ts";
import type { PlantStore } from "../../src/store.ts";
import { sendInTurn } from "../support/load.ts";
import { listen } from "../support/serving.ts";
import { post, token } from "../support/support.ts";
import { type Cluster, type OpenOptions } from "./cluster.ts";
import { until } from "../support/until.ts";

/** A server of this process on a free port. */
export const serve = (store: PlantStore): Promise<number> =>
  listen(createPlantServer({ store, tokens: [token] }));

const {
  unknown: [unknown],
  unreachable: [unreachable]
} = catalogue;

let nextId = 1;

/** Posts plants with ids of their own over so many connections, each when its last is answered. */
export class Load {
  readonly acknowledged: number[] = [];

  /** How often each error number was answered. */
  readonly refused = new Map<number, number>();

  /** The longest time without a 200. */
  gapMillisMax = 0;
  #lastAt = performance.now();
  #isOver = false;
  readonly #connections: Promise<unknown>[];

  constructor(port: number, connections: number) {
    this.#connections = Array.from({ length: connections }, () =>
      this.#connect(port)
    );
  }

  /** Waits until so many more are acknowledged. */
  async more(count: number): Promise<void> {
    const wanted = this.acknowledged.length + count;
    await until(
      `${wanted} are acknowledged`,
      () => this.acknowledged.length >= wanted
    );
  }

  /** Ends when every plant that was sent is answered. */
  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#connections);
  }

  #connect(port: number): Promise<unknown> {
    let id = 0;
    return sendInTurn(
      port,
      () => {
        if (this.#isOver) return undefined;
        id = nextId++;
        return post(JSON.stringify({ id, name: "Fern", tag: "shade" }));
      },
      async (answer) => {
        if (!answer.startsWith("HTTP/1.1 200 ")) {
          const error = Number(/"error":(\d+)/.exec(answer)?.[1]);
          this.refused.set(error, (this.refused.get(error) ?? 0) + 1);
          return setTimeout(20);
        }
        const now = performance.now();
        this.gapMillisMax = Math.max(this.gapMillisMax, now - this.#lastAt);
        this.#lastAt = now;
        this.acknowledged.push(id);
      }
    );
  }
}

/** What was acknowledged against what the stream holds; every message must be a record. */
export async function compare(
  cluster: Cluster,
  acknowledged: readonly number[],
  stream = "plants"
) {
  const messages = await cluster.read(stream);
  const found = new Map<number, number>();
  for (const [index, message] of messages.entries()) {
    assert.ok(
      decodeMessage(Buffer.from(message)),
      `message ${index + 1}: ${message}`
    );
    const {
      plant: { id }
    } = JSON.parse(message) as { plant: { id: number } };
    found.set(id, (found.get(id) ?? 0) + 1);
  }
  return {
    stored: messages.length,
    missing: acknowledged.filter((id) => !found.has(id)).length,
    twice: [...found.values()].filter((count) => count > 1).length
  };
}

let streams = 0;

/**
 * Causes a fault on a stream of its own, over which a server stores what so many connections post
 * before and after it. Whatever was acknowledged must be there, and once unless `isControl`; a
 * refusal says truly that nothing was stored, or that it is unknown.
 */
export async function underLoad(
  t: TestContext,
  cluster: Cluster,
  fault: (at: {
    stream: string;
    load: Load;
    warnings: readonly string[];
  }) => Promise<void>,
  {
    connections = 64,
    isControl = false,
    ...options
  }: OpenOptions & {
    readonly connections?: number;
    readonly isControl?: boolean;
  } = {}
) {
  const stream = `faults${++streams}`;
  await cluster.create(stream);
  const warnings: string[] = [];
  const store = await cluster.open(stream, {
    user: "admin",
    query: "?servers=servers",
    warn: (line) => warnings.push(line),
    ...options
  });
  t.after(() => store.close());
  const load = new Load(await serve(store), connections);
  await load.more(200);
  await fault({ stream, load, warnings });
  await load.more(200);
  await load.end();
  const compared = await compare(cluster, load.acknowledged, stream);
  t.diagnostic(
    `${load.acknowledged.length} acknowledged, ${compared.stored} stored, ` +
      `${compared.missing} missing, ${compared.twice} twice, longest time without a 200 ` +
      `${Math.round(load.gapMillisMax)} ms, refused ${JSON.stringify([...load.refused])}`
  );
  assert.equal(compared.missing, 0, "acknowledged, and not there");
  if (!isControl) assert.equal(compared.twice, 0);
  assert.deepEqual(
    [...load.refused.keys()].filter(
      (error) => error !== unknown && error !== unreachable
    ),
    []
  );

  // An election takes 4 to 9 s, and the machine may be busy.
  assert.ok(
    load.gapMillisMax < 60_000,
    `plants are stored again by themselves: ${load.gapMillisMax} ms`
  );
  return compared;
}

/** Every limit of HTTP at its edge, the timeouts, and the drain of the program. */
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { limitTable, type Limits } from "../../src/config.ts";
import {
  chunk,
  chunked,
  coding,
  fern,
  good,
  halfBody,
  halfHead,
  host,
  line,
  nested,
  plantOf,
  withFields,
  withHeadBytes
} from "../support/requests.ts";
import {
  answerTo,
  assertError,
  exchange,
  opened,
  readAnswers
} from "../support/exchange.ts";
import { post, startProcess } from "../support/support.ts";
import { serve, type Serving, timeout } from "../support/serving.ts";
import { seconds, until } from "../support/until.ts";

const { PLANT_TEST_NODE: node = process.execPath } = process.env;
type Limit = keyof typeof limitTable;

/** Writes, and waits until the kernel has it. */
const write = (socket: Socket, bytes: string | Buffer): Promise<void> =>
  new Promise((resolve) => {
    socket.write(bytes, () => resolve());
  });

/** At the limit, and one beyond it. */
const edges =
  (
    limit: number,
    at: string | Buffer,
    beyond: string | Buffer,
    status: number
  ) =>
  async ({ port }: Serving): Promise<void> => {
    assert.equal((await answerTo(port, at)).status, 200);
    const { message } = assertError(await answerTo(port, beyond), [status]);
    assert.ok(message.includes(`${limit}`), message);
    assert.equal((await answerTo(port, post(fern))).status, 200);
  };

/** Half a request is answered 408, and closed. */
const late =
  (...sent: readonly string[]) =>
  async ({ port }: Serving): Promise<void> => {
    for (const bytes of sent) {
      const answers = await exchange(port, bytes);
      assert.equal(answers.length, 1);
      assertError(answers[0], [408]);
    }
  };

interface LimitCase {
  /** In addition to the defaults. */
  readonly limits: Partial<Limits>;
  readonly check: (serving: Serving) => Promise<void>;
}
/**
 * Limits that other files test: connection-close.test.ts, idle-timeout.test.ts, shutdown.test.ts,
 * body-budget.test.ts, and the store's own tests.
 */
const elsewhere: readonly string[] = [
  "discardMillis",
  "idleMillis",
  "drainMillis",
  "bodiesBytesMax",
  "queueRecordsMax",
  "queueBytesMax",
  "batchBytesMax",
  "keysBytesMax",
  "rotationMillis"
];
const limitCases: { readonly [name in Limit]?: readonly LimitCase[] } = {
  bodyBytesMax: [
    {
      limits: { bodyBytesMax: 100 },
      check: edges(100, post(plantOf(100)), post(plantOf(101)), 413)
    },
    {
      limits: { bodyBytesMax: 100 },
      check: edges(100, chunked(plantOf(100)), chunked(plantOf(101)), 413)
    }
  ],
  headBytesMax: [
    {
      limits: { headBytesMax: 1_000 },
      check: edges(1_000, withHeadBytes(1_000), withHeadBytes(1_001), 431)
    }
  ],
  headFieldsMax: [
    {
      limits: { headFieldsMax: 10 },
      check: edges(10, withFields(10), withFields(11), 431)
    }
  ],
  nestingMax: [
    {
      limits: { nestingMax: 3 },
      check: edges(3, post(nested(3)), post(nested(4)), 400)
    }
  ],
  headMillis: [
    { limits: { headMillis: 150, checkMillis: 10 }, check: late(halfHead, "P") }
  ],
  requestMillis: [
    {
      limits: { requestMillis: 150, checkMillis: 10 },
      check: late(
        halfBody,
        `${line}${host}${good}Transfer-Encoding: chunked\r\n\r\n5\r\n`
      )
    }
  ],
  checkMillis: [
    {
      limits: { headMillis: 100, requestMillis: 100, checkMillis: 1_000 },
      check: late(halfHead, halfBody)
    }
  ],
  discardBytesMax: [
    {
      limits: { discardBytesMax: 5_000 },
      async check({ port }) {
        const small = `POST /x HTTP/1.1\r\nHost: a\r\n${good}Content-Length: 5000\r\n\r\n`;
        const within = await exchange(
          port,
          [small, " ".repeat(5_000), post(fern)],
          { answers: 2 }
        );
        assertError(within[0], [404]);
        assert.equal(within[1]?.status, 200);
        const [declared, ...more] = await exchange(
          port,
          small.replace("5000", "5001")
        );
        assertError(declared, [404]);
        assert.equal(declared?.headers["connection"], "close");
        assert.equal(more.length, 0);
      }
    },
    {
      limits: { discardBytesMax: 5_000, discardMillis: 60_000 },
      async check({ port }) {
        const endless = await opened(port);
        const answers = readAnswers(endless, Infinity);
        const unended = chunked(" ".repeat(8_000))
          .replace("/plants", "/x")
          .slice(0, -5);
        await write(endless, unended);
        assertError((await answers)[0], [404]);
      }
    }
  ],
  pipelinedMax: [
    {
      limits: { pipelinedMax: 3 },
      async check({ port, store }) {
        for (const [sent, executed, last] of [
          [3, 3, "keep-alive"],
          [4, 4, "close"],
          [5, 4, "close"]
        ] as const) {
          store.hold();
          const requests = `${post(fern)}`.repeat(sent);
          const answers = exchange(port, requests, { answers: executed });
          await until("they wait", () => store.waiting === executed);
          store.release();
          const [final, ...others] = (await answers)
            .reverse()
            .map(({ headers }) => headers["connection"]);
          assert.equal(final, last);
          assert.deepEqual(others, Array(executed - 1).fill("keep-alive"));
        }
        assert.equal(store.names.length, 3 + 4 + 4);
      }
    }
  ],
  connectionsMax: [
    {
      limits: { connectionsMax: 2 },
      async check({ port }) {
        const held = [await opened(port), await opened(port)] as const;
        for (const socket of held) {
          const answer = readAnswers(socket, 1);
          await write(socket, post(fern));
          assert.equal((await answer)[0]?.status, 200);
        }
        assert.deepEqual(await exchange(port, post(fern)), []);
        const again = readAnswers(held[0], 1);
        await write(held[0], post(fern));
        assert.equal((await again)[0]?.status, 200);
        for (const socket of held) socket.destroy();
      }
    }
  ]
};

for (const [name, cases = []] of Object.entries(limitCases)) {
  for (const { limits, check } of cases) {
    test(
      `${name} holds at its edge: ${JSON.stringify(limits)}`,
      { timeout },
      async () => check(await serve({ limits }))
    );
  }
}

test("every limit of the table has its test", () => {
  const tested = [...Object.keys(limitCases), ...elsewhere].sort();
  assert.deepEqual(tested, Object.keys(limitTable).sort());
});

test(
  "a body in 500,000 chunks fits into a heap of 64 MiB",
  { timeout: seconds(180) },
  async () => {
    const nodeArgs = ["--max-old-space-size=64"];
    const running = await startProcess({ node, nodeArgs });
    const socket = await opened(running.port);
    await write(
      socket,
      `${line}${host}${good}${coding}\r\n${chunk(" ").repeat(500_000)}`
    );
    // The response to the byte over the limit follows the reading of all before it.
    const answers = readAnswers(socket, 1);
    await write(socket, chunk(" ".repeat(548_577)));
    assertError((await answers)[0], [413]);
    socket.destroy();
    assert.equal(await running.end(), 0);
  }
);

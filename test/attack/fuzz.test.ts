/**
 * Requests made from seeds, valid and mutated, are sent to the program. Every response is compared
 * with fuzzmodel.ts, and the journal with the responses.
 *
 * PLANT_TEST_FUZZ_SECONDS=600 runs for 600 s, and shows that other programs are noticed;
 * PLANT_TEST_FUZZ_SEED=n runs one case and prints it; PLANT_TEST_FUZZ_FROM=n begins with another
 * seed; PLANT_TEST_NODE is another node binary.
 */
import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { catalogue } from "../../src/http/errors.ts";
import { fuzzCase, type FuzzCase } from "./fuzzer.ts";
import {
  forecast,
  type Forecast,
  type ModelPlant,
  type Prediction
} from "./fuzzmodel.ts";
import { run } from "../support/in-process.ts";
import { headersOf, optional } from "../support/requests.ts";
import { assertError, exchange, type RawAnswer } from "../support/exchange.ts";
import {
  post,
  startProcess,
  temporaryFolder,
  token
} from "../support/support.ts";
import { seconds } from "../support/until.ts";

const {
  PLANT_TEST_NODE: node = process.execPath,
  PLANT_TEST_FUZZ_SECONDS: fuzzSeconds = "0",
  PLANT_TEST_FUZZ_SEED: onlySeed = "",
  PLANT_TEST_FUZZ_FROM: from = "1"
} = process.env;
const requestsWanted = 2_000;
const limits = { body: 4_096, head: 2_048, fields: 30, nesting: 8 };
// The fuzzer never waits, and a time-out would hide a missing response.
const settings: ReadonlyMap<string, string> = new Map([
  ["--max-body", "4096"],
  ["--max-head", "2048"],
  ["--max-fields", "30"],
  ["--max-nesting", "8"],
  ["--head-timeout", "120000"],
  ["--request-timeout", "120000"],
  ["--discard-timeout", "1000"]
]);

interface Answer extends RawAnswer {
  /** 1xx responses that came before it. */
  readonly interim: number;
}

/** Reads responses as strictly as a proxy may; `rest` is what is not a whole response. */
function readAnswers(text: string): {
  readonly answers: readonly Answer[];
  readonly rest: string;
} {
  const answers: Answer[] = [];
  let at = 0;
  let interim = 0;
  for (;;) {
    const end = text.indexOf("\r\n\r\n", at);
    if (end < 0) return { answers, rest: text.slice(at) };
    const [line = "", ...fields] = text.slice(at, end).split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3}) [ -~]+$/.exec(line)?.[1]);
    assert.ok(status >= 100, `a status line: ${JSON.stringify(line)}`);
    if (status < 200) {
      assert.equal(`${status} ${fields.length}`, "100 0");
      interim++;
      at = end + 4;
      continue;
    }
    const headers = Object.fromEntries(
      fields.map((field) => {
        const [, name = "", value = ""] =
          /^([\w-]+): ([ -~]+)$/.exec(field) ?? [];
        return [name.toLowerCase(), value];
      })
    );
    assert.equal(
      Object.keys(headers).length,
      fields.length,
      `each field once: ${fields.join()}`
    );
    const length = Number(headers["content-length"] ?? NaN);
    assert.ok(length > 0, "a Content-Length");
    // A response to HEAD has no body. All other bodies are objects.
    const isBare =
      text[end + 4] === "H" || (end + 4 === text.length && status >= 400);
    const next = end + 4 + (isBare ? 0 : length);
    if (next > text.length) return { answers, rest: text.slice(at) };
    const body = Buffer.from(text.slice(end + 4, next), "latin1").toString();
    answers.push({ status, headers, body, interim });
    [at, interim] = [next, 0];
  }
}

/** Whether the connection closes, by the numbers of the catalogue. */
const closes = new Map<number, boolean>(
  Object.values(catalogue).map(([error, , ...fields]) => [
    error,
    fields.some(([name]) => name === "Connection")
  ])
);
const statuses = [
  200, 400, 401, 404, 405, 408, 413, 415, 417, 431, 501, 503, 505
];

/** Checks what holds for every response; returns the Error's number, or 0 for a Plant. */
function checkAnswer(answer: Answer): number {
  const { status, headers, body } = answer;
  assert.ok(statuses.includes(status), `status ${status}`);
  if (body === "") return 0;
  if (status === 200) {
    assert.match(
      Object.keys(JSON.parse(body) as object).join(),
      /^name(?:,tag)?$/
    );
    return 0;
  }
  const { error, message } = assertError(answer, [status]);
  assert.ok(closes.has(error), `number ${error} is in the catalogue`);
  assert.ok(!message.includes(token), "a message contains the token");
  if (closes.get(error)) assert.equal(headers["connection"], "close");
  const expected = headersOf(error);
  for (const name of optional)
    assert.equal(headers[name], expected[name], `${name}, ${error}`);
  return error;
}

const keyOf = ({ id, name, tag }: ModelPlant): string =>
  JSON.stringify([`${id}`, name, tag]);

/** The lines of a file, which end in LF alone: readline's end in U+2028, too, from Node 24 on. */
async function* linesIn(path: string): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of createReadStream(
    path,
    "utf8"
  ) as AsyncIterable<string>) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

/** The responses of a run, and the records that the journal must have for them. */
class Tally {
  readonly byStatus = new Map<number, number>();
  /** Plants that must be stored (with an empty id if it is unknown), and plants that may be. */
  readonly stored = new Map<string, number>();
  readonly possible = new Map<string, number>();
  readonly known = {
    cases: 0,
    requests: 0,
    answers: 0,
    wild: 0,
    exact: 0,
    aborted: 0
  };

  count(map: Map<string, number>, key: string): void {
    map.set(key, (map.get(key) ?? 0) + 1);
  }

  /** Compares the responses to one case with its forecast. */
  check(answers: readonly Answer[], { predictions, end }: Forecast): void {
    for (const [index, answer] of answers.entries()) {
      const error = checkAnswer(answer);
      this.byStatus.set(
        answer.status,
        (this.byStatus.get(answer.status) ?? 0) + 1
      );
      this.known.answers++;
      const closed = answers[index - 1]?.headers["connection"] === "close";
      assert.ok(!closed, "a response follows Connection: close");
      const prediction = predictions[index];
      if (prediction)
        this.#checkOne(
          answer,
          error,
          prediction,
          index === predictions.length - 1
        );
      else assert.equal(end, "wild", `one response too many: ${answer.body}`);
      if (answer.status === 200 && !prediction) {
        const { name, tag } = JSON.parse(answer.body) as {
          name: string;
          tag?: string;
        };
        this.count(this.stored, JSON.stringify(["", name, tag]));
      }
    }
    const isClosed = answers.at(-1)?.headers["connection"] === "close";
    assert.ok(
      isClosed || answers.length >= predictions.length,
      `${answers.length} responses to ${predictions.length} requests`
    );
  }

  #checkOne(
    answer: Answer,
    error: number,
    prediction: Prediction,
    isLast: boolean
  ): void {
    const { plant, errors, isHead, mayContinue, closes } = prediction;
    assert.ok(
      answer.interim <= Number(mayContinue),
      "100 Continue to a client that must not go on"
    );
    if (errors.length + Number(plant !== undefined) === 1) this.known.exact++;
    if (answer.status === 200) {
      assert.ok(plant, `200 ${answer.body} instead of ${errors.join()}`);
      const { name, tag } = plant;
      assert.equal(answer.body, `${JSON.stringify({ name, tag })}\n`);
      this.count(this.stored, keyOf(plant));
    } else if (isHead && answer.body === "") {
      const isRight = errors.some(
        (each) => Math.floor(each / 100) === answer.status
      );
      assert.ok(isRight, `${answer.status} instead of ${errors.join()}`);
    } else {
      const expected = plant
        ? `200 ${keyOf(plant).slice(0, 80)} ${errors.join()}`
        : errors.join();
      assert.ok(
        errors.includes(error),
        `${answer.body} instead of ${expected}`
      );
    }
    const isClosed = answer.headers["connection"] === "close";
    if (closes === "must") assert.ok(isClosed, "Connection: close");
    if (closes === "no" && !isLast)
      assert.ok(!isClosed, `no Connection: close: ${answer.body}`);
  }

  /** Checks that the journal has one record for each 200, and no other. */
  async checkJournal(path: string): Promise<number> {
    let records = 0;
    const stored = new Map(this.stored);
    const possible = new Map(this.possible);
    for await (const line of linesIn(path)) {
      const id = /^\{"seq":\d+,[^p]*"plant":\{"id":(-?\d+),/.exec(line)?.[1];
      if (id === undefined) continue;
      records++;
      const { plant } = JSON.parse(line) as {
        plant: { name: string; tag?: string };
      };
      const { name, tag } = plant;
      const found = [
        [stored, id],
        [possible, id],
        [stored, ""],
        [possible, ""]
      ] as const;
      const place = found
        .map(([map, own]) => [map, JSON.stringify([own, name, tag])] as const)
        .find(([map, key]) => (map.get(key) ?? 0) > 0);
      assert.ok(place, `a record without a 200: ${line}`);
      const [map, key] = place;
      const left = (map.get(key) ?? 0) - 1;
      if (left === 0) map.delete(key);
      else map.set(key, left);
    }
    assert.deepEqual([...stored.keys()], [], "every 200 has its record");
    return records;
  }
}

const watchdogMillis = 30_000;
/** Sends a case, and returns all bytes that came back. */
async function send(
  port: number,
  { parts, ending }: FuzzCase,
  answersDue: number
): Promise<string> {
  const socket: Socket = connect({
    port,
    host: "127.0.0.1",
    allowHalfOpen: true,
    noDelay: true
  });
  const watchdog = setTimeout(() => socket.destroy(), watchdogMillis);
  let text = "";
  const closed = new Promise<void>(
    (resolve) => void socket.once("close", () => resolve())
  );
  let isDone: () => void = () => undefined;
  const done = new Promise<void>((resolve) => {
    isDone = resolve;
  });
  socket
    .on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      if (
        ending === "patient" &&
        readAnswers(text).answers.length >= answersDue
      )
        isDone();
    })
    .on("end", isDone)
    .on("error", isDone);
  for (const part of parts) {
    if (!socket.writable) break;
    await new Promise<void>(
      (resolve) => void socket.write(part, "latin1", () => resolve())
    );
    await setImmediate();
  }
  if (ending === "patient" && answersDue > 0)
    await Promise.race([done, closed]);
  if (ending === "abort") socket.resetAndDestroy();
  else socket.end();
  await closed;
  clearTimeout(watchdog);
  return text;
}

async function fuzz(
  port: number,
  seed: number,
  tally: Tally,
  shows = false
): Promise<void> {
  const made = fuzzCase(seed);
  const expected = forecast(made.text, limits, token);
  const { predictions, end } = expected;
  // An unfinished request gets its response after the client half-closes: not before.
  const unfinished = predictions.findIndex(({ errors }) =>
    errors.includes(40015)
  );
  const due = unfinished < 0 ? predictions.length : unfinished;
  // The model does not know what a wild case may have stored.
  const isWild = end === "wild" && made.ending === "abort";
  const given = isWild ? ({ ...made, ending: "half-close" } as const) : made;
  let text = "";
  try {
    text = await send(port, given, due);
    tally.known.cases++;
    tally.known.requests += predictions.length;
    if (end === "wild") tally.known.wild++;
    if (given.ending === "abort") {
      tally.known.aborted++;
      for (const { plant } of predictions)
        if (plant) tally.count(tally.possible, keyOf(plant));
      return;
    }
    const { answers, rest } = readAnswers(text);
    assert.equal(rest, "", "only whole responses");
    tally.check(answers, expected);
    if (shows) console.error(shown(given, expected, text));
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new Error(
      `seed ${seed}: ${problem}\n${shown(given, expected, text)}`,
      { cause: error }
    );
  }
}

function shown(
  { ending, parts }: FuzzCase,
  expected: Forecast,
  text: string
): string {
  const json = (value: unknown): string =>
    JSON.stringify(value, (_, each: unknown) =>
      typeof each === "bigint" ? `${each}` : each
    );
  return [
    `sent, then ${ending}:`,
    ...parts.map(json),
    `expected, then ${expected.end}:`,
    ...expected.predictions.map(json),
    "received:",
    text
  ].join("\n");
}

interface Run {
  readonly tally: Tally;
  readonly records: number;
  readonly lastSeed: number;
}

/** Runs cases until there are enough, and for so long. Throws what the model finds. */
async function fuzzing(
  first: number,
  { millis = 0, requests = requestsWanted, settings: given = settings } = {}
): Promise<Run> {
  const cwd = temporaryFolder();
  const server = await startProcess({
    node,
    nodeArgs: ["--max-old-space-size=64"],
    cwd,
    args: [...given].flat()
  });
  const tally = new Tally();
  try {
    const begin = Date.now();
    let seed = first;
    let isBroken = false;
    const isRunning = (): boolean =>
      !isBroken &&
      (Date.now() - begin < millis || tally.known.requests < requests);
    const worker = async (): Promise<void> => {
      while (isRunning()) {
        await fuzz(server.port, seed++, tally).catch((error: unknown) => {
          isBroken = true;
          throw error;
        });
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
    const valid = { id: -1n, name: "valid", tag: undefined };
    const answer = await exchange(
      server.port,
      post('{"id":-1,"name":"valid"}'),
      { answers: 1 }
    );
    assert.deepEqual(
      answer.map(({ body }) => body),
      ['{"name":"valid"}\n']
    );
    tally.count(tally.stored, keyOf(valid));
    assert.equal(await server.end(), 0, server.stderr());
    assert.equal(server.stderr(), "");
    const records = await tally.checkJournal(join(cwd, "plants.ndjson"));
    const verified = await run(["verify", "--json", "plants.ndjson"], {}, cwd);
    assert.equal(verified.code, 0);
    assert.equal(JSON.parse(verified.stdout).records, records);
    return { tally, records, lastSeed: seed - 1 };
  } finally {
    await server.end("SIGKILL");
  }
}

if (onlySeed !== "") {
  test(`seed ${onlySeed} alone`, async () => {
    const server = await startProcess({ node, args: [...settings].flat() });
    after(() => server.end("SIGKILL"));
    await fuzz(server.port, Number(onlySeed), new Tally(), true);
  });
} else {
  const millis = Number(fuzzSeconds) * 1_000;
  test(
    "every response to random requests is right, and so is the journal",
    { timeout: millis + seconds(120) },
    async (t) => {
      const begin = Date.now();
      const { tally, records, lastSeed } = await fuzzing(Number(from), {
        millis
      });
      const { known, byStatus } = tally;
      t.diagnostic(
        `${JSON.stringify(known)}, records: ${records}, last seed: ${lastSeed}, ` +
          `${Date.now() - begin} ms`
      );
      t.diagnostic(
        [...byStatus]
          .sort()
          .map(([status, count]) => `${status}: ${count}`)
          .join(", ")
      );
      for (const status of statuses) {
        const isReached = (byStatus.get(status) ?? 0) > 0;
        assert.equal(
          isReached,
          status !== 408 && status !== 503,
          `status ${status}`
        );
      }
      assert.ok(
        known.exact > known.answers / 2,
        "most right responses are known exactly"
      );
      assert.ok(known.wild < known.cases / 10, "few cases are not understood");
    }
  );
}

/** Programs that do not do what the model expects, by another setting. */
const controls: readonly (readonly [
  says: string,
  flag: string,
  value: string
])[] = [
  ["takes deeper JSON", "--max-nesting", "9"],
  ["takes larger bodies", "--max-body", "100000"],
  ["takes fewer fields", "--max-fields", "10"],
  ["takes shorter heads", "--max-head", "1000"]
];
if (onlySeed === "" && fuzzSeconds !== "0") {
  for (const [says, flag, value] of controls) {
    test(
      `a program that ${says} is noticed`,
      { timeout: seconds(120) },
      async (t) => {
        const other = new Map([...settings, [flag, value]]);
        await assert.rejects(
          fuzzing(1, { settings: other }),
          (error: Error) => {
            t.diagnostic(error.message.split("\n")[0] ?? "");
            return true;
          }
        );
      }
    );
  }
}

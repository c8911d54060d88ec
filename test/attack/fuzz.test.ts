/**
 * Rows of the hostile tables in random orders and pieces: each gets the response of its row, whatever
 * comes before it. The same with random bytes changed: each response is well-formed, and the journal
 * has what a 200 has acknowledged.
 *
 * PLANT_TEST_FUZZ_SECONDS=600 runs for 600 s, and shows that other programs are noticed;
 * PLANT_TEST_FUZZ_SEED=n runs one case and prints it; PLANT_TEST_FUZZ_FROM=n begins with another
 * seed; PLANT_TEST_NODE is another node binary.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bodies } from "./hostile-bodies.ts";
import { heads } from "./hostile-heads.ts";
import { assertResponses, checkResponse, following, named } from "./hostile.ts";
import { exchange, opened } from "../support/exchange.ts";
import { run } from "../support/in-process.ts";
import { seeded, startProcess, temporaryFolder } from "../support/support.ts";
import { seconds } from "../support/until.ts";

const {
  PLANT_TEST_NODE: node = process.execPath,
  PLANT_TEST_FUZZ_SECONDS: fuzzSeconds = "0",
  PLANT_TEST_FUZZ_SEED: onlySeed = "",
  PLANT_TEST_FUZZ_FROM: from = "1"
} = process.env;

/** Those that are short. */
const rows = [...heads, ...bodies].filter(
  ({ parts }) => parts.join("").length < 2_000
);

type Below = (bound: number) => number;

interface Case {
  /** The bytes of a connection as Latin-1, as they are written one after another. */
  readonly parts: readonly string[];
  /** `changed`: some bytes are not as in the tables. `aborted`: the client resets, anywhere. */
  readonly kind: "exact" | "changed" | "aborted";
  /** Of its plants. */
  readonly name: string;
  /** The responses, as in a row, and the ids of the plants that are stored. */
  readonly expected: string;
  readonly ids: readonly string[];
  readonly halfClose: boolean;
}

/** Some rows after one another, and the valid request that closes the connection. */
function caseOf(seed: number): Case {
  const below = seeded(Math.imul(seed, 0x9e3779b1));
  const drawn = Array.from({ length: 1 + below(4) }, () => oneOf(below, rows));
  const end = drawn.findIndex(({ closes }) => closes);
  const served = end < 0 ? drawn : drawn.slice(0, end + 1);
  const expected = [
    ...served.map((row) => row.expected),
    ...(end < 0 ? ["200"] : [])
  ];
  const plants = served.flatMap(({ ids, closes }) =>
    closes ? ids : ids.slice(0, -1)
  );
  const name = below(36 ** 4)
    .toString(36)
    .padStart(4, "0");
  const whole = named(
    [...drawn.map(({ parts: [bytes = ""] }) => bytes), following].join(""),
    name
  );
  const one = oneOf(below, ["exact", "exact", "changed", "aborted"] as const);

  // On Node 20, a reset within the body of an Upgrade is noticed at the request timeout, which is
  // longer than the drain's.
  const kind = one === "aborted" && /upgrade/i.test(whole) ? "exact" : one;
  const text =
    kind === "changed"
      ? changed(below, whole)
      : kind === "aborted"
        ? whole.slice(0, below(whole.length))
        : whole;
  const count = oneOf(below, [0, 0, 1, 2, 6]);
  const cuts = Array.from({ length: count }, () => below(text.length));
  const edges = [0, ...cuts.sort((a, b) => a - b), text.length];
  return {
    parts: edges.slice(1).map((edge, at) => text.slice(edges[at], edge)),
    kind,
    name,
    expected: expected.join(),
    ids: end < 0 ? [...plants, "7"] : plants,
    // Without it, a request that lost its end would wait for the head timeout.
    halfClose: kind === "changed" || below(2) === 0
  };
}

const oneOf = <T>(below: Below, list: readonly T[]): T =>
  list[below(list.length)] ?? assert.fail("the list is empty");

const alphabet = [...'\r\n\0 :\t;\xff0a"{\\', "\r\n"];

/** The text with bytes changed, inserted, removed or repeated, anywhere. */
function changed(below: Below, text: string): string {
  const at = below(text.length + 1);
  const end = at + 1 + below(oneOf(below, [1, 4, 60]));
  const code = text.charCodeAt(at) || 0;
  const [removed, inserted] = oneOf(below, [
    [end, ""],
    [at, text.slice(at, end)],
    [at, oneOf(below, alphabet)],
    [at + 1, String.fromCharCode(below(256))],
    [at + 1, String.fromCharCode(code ^ (1 << below(8)))]
  ] as const);
  return text.slice(0, at) + inserted + text.slice(removed);
}

/** What the journal must have of each id and response, or of each response alone, and may have. */
interface Tally {
  readonly stored: Map<string, number>;
  readonly possibleNames: Set<string>;
  readonly statuses: Set<number>;
  cases: number;
}

/** Runs a case, and throws unless the responses are right. */
async function check(port: number, seed: number, tally: Tally): Promise<void> {
  const drawn = caseOf(seed);
  const { parts, kind, name, expected, ids, halfClose } = drawn;
  tally.cases++;
  if (kind === "aborted") {
    const socket = await opened(port, Buffer.from(parts.join(""), "latin1"));
    socket.resetAndDestroy();
    tally.possibleNames.add(name);
    return;
  }
  const found = await exchange(port, parts, { halfClose });
  if (onlySeed !== "") console.error(JSON.stringify({ ...drawn, found }));
  try {
    if (kind === "exact") assertResponses(found, expected);
    found.forEach(checkResponse);
    const closing = found.map(({ headers }) => headers["connection"]);
    assert.ok(
      !closing.slice(0, -1).includes("close"),
      "a response follows Connection: close"
    );
  } catch (error) {
    throw new Error(`seed ${seed}: ${JSON.stringify(drawn)}`, { cause: error });
  }
  const plants = found.filter(({ status }) => status === 200);
  for (const [index, { body }] of plants.entries()) {
    const key = kind === "exact" ? `${ids[index]} ${body}` : body;
    tally.stored.set(key, (tally.stored.get(key) ?? 0) + 1);
  }
  for (const { status } of found) tally.statuses.add(status);
}

/** Checks that the journal has one record for each 200, and no other; returns how many. */
function checkJournal(path: string, { stored, possibleNames }: Tally): number {
  const left = new Map(stored);
  const records = readFileSync(path, "utf8").split("\n").slice(1, -1);
  for (const line of records) {
    const [, id] = /"plant":\{"id":(-?\d+),/.exec(line) ?? [];
    const { name, tag } = JSON.parse(line).plant;
    const body = `${JSON.stringify({ name, tag })}\n`;
    const key = [`${id} ${body}`, body].find((each) => left.get(each));
    if (key !== undefined) left.set(key, (left.get(key) ?? 0) - 1);
    else assert.ok(possibleNames.has(name), `a record without a 200: ${line}`);
  }
  const missing = [...left].filter(([, count]) => count > 0);
  assert.deepEqual(missing, [], "every 200 has its record");
  return records.length;
}

/** Runs cases until there are enough, and for so long, or one. Throws what is wrong. */
async function fuzz(
  seeds: { readonly first: number; readonly count: number },
  { millis = 0, args = [] as readonly string[] } = {}
): Promise<Tally> {
  const cwd = temporaryFolder();
  const nodeArgs = ["--max-old-space-size=64"];
  // The idle timeout ends the wait for a missing response.
  const soon = ["--idle-timeout", "10000"];
  const server = await startProcess({
    node,
    nodeArgs,
    cwd,
    args: [...soon, ...args]
  });
  const tally: Tally = {
    stored: new Map(),
    possibleNames: new Set(),
    statuses: new Set(),
    cases: 0
  };
  const end = performance.now() + millis;
  let seed = seeds.first;
  const worker = async (): Promise<void> => {
    while (seed < seeds.first + seeds.count || performance.now() < end)
      await check(server.port, seed++, tally);
  };
  try {
    await Promise.all(Array.from({ length: 16 }, worker));
    assert.equal(await server.end(), 0, server.stderr());
    assert.equal(server.stderr(), "");
    const records = checkJournal(join(cwd, "plants.ndjson"), tally);
    const verified = await run(["verify", "--json", "plants.ndjson"], {}, cwd);
    assert.equal(verified.code, 0);
    assert.equal(JSON.parse(verified.stdout).records, records);
    return tally;
  } finally {
    await server.end("SIGKILL");
  }
}

const millis = Number(fuzzSeconds) * 1_000;
test(
  "rows in any order get their responses, changed bytes well-formed ones, and the journal is right",
  { timeout: millis + seconds(120) },
  async (t) => {
    const isOne = onlySeed !== "";
    const first = Number(isOne ? onlySeed : from);
    const count = isOne ? 1 : 600;
    const { cases, statuses } = await fuzz({ first, count }, { millis });
    t.diagnostic(`${cases} cases, ${[...statuses].sort().join()}`);
    const reached = [200, 400, 401, 404, 405, 413, 415, 417, 431, 501, 505];
    for (const status of isOne ? [] : reached)
      assert.ok(statuses.has(status), `${status}`);
  }
);

/** Programs that do not do what the tables expect, by another setting. */
for (const [says, ...args] of fuzzSeconds === "0"
  ? []
  : [
      ["takes shallower JSON", "--max-nesting", "60"],
      ["takes fewer fields", "--max-fields", "50"],
      ["takes shorter heads", "--max-head", "200"]
    ]) {
  test(
    `a program that ${says} is noticed`,
    { timeout: seconds(120) },
    async () => {
      await assert.rejects(fuzz({ first: 1, count: 5_000 }, { args }));
    }
  );
}

/** Two readers of a plant: the regular expression and the strict one. They agree on every body. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { newPlantJson, newPlantOf, plainForm, plantJson, readNewPlant } from "../../src/plant.ts";
import { seeded } from "../support/support.ts";

const { PLANT_TEST_BODIES = "50000" } = process.env;
const runs = Number(PLANT_TEST_BODIES);

const isPlain = (text: string): boolean => new RegExp(`^${plainForm}$`).test(text);
const space = Buffer.from(" ");

/** Returns the text that the strict reader makes of a body, or undefined if it refuses the body. */
function strict(body: Buffer): string | undefined {
  try {
    // No plain form begins with a space.
    return readNewPlant(Buffer.concat([space, body]), 64);
  } catch {
    return undefined;
  }
}

/** Returns what is wrong with the fast reader on a body, or undefined. */
function disagreement(body: Buffer, isFast: (text: string) => boolean): string | undefined {
  const text = body.toString("latin1");
  if (!isFast(text)) return undefined;
  const kept = strict(body);
  if (kept === undefined) return "the strict reader refuses it";
  return kept === text ? undefined : `the strict reader makes ${kept}`;
}

const ids = ["0", "-0", "7", "-7", "01", "1.0", "1e2", "+1", "", "-", "null", '"7"', "0x1",
  "9".repeat(17), "9".repeat(18), "9".repeat(19), `-${"9".repeat(18)}`, `-${"9".repeat(19)}`,
  "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"];
const pieces = ["", "Fern", " ", "!", "#", "[", "]", "~", "\x7f", "\x1f", "\t", "\n", "\0", '"',
  "\\", '\\"', "\\\\", "\\u0041", "\\ud800", "\\/", "\xe9", "\xc3\xa9", "\xff", "}", ',"tag":"x"',
  ',"id":2', "__proto__"];
const frames: readonly ((id: string, name: string, tag: string) => string)[] = [
  (id, name) => `{"id":${id},"name":"${name}"}`,
  (id, name, tag) => `{"id":${id},"name":"${name}","tag":"${tag}"}`,
  (id, name, tag) => `{"id":${id},"name":"${name}","tag":"${tag}","id":${id}}`,
  (id, name, tag) => `{"id":${id},"name":"${name}","tag":"${tag}","tag":"${tag}"}`,
  (id, name, tag) => `{"name":"${name}","id":${id},"tag":"${tag}"}`,
  (id, name, tag) => `{"id":${id},"name":"${name}","more":"${tag}"}`,
  (id, name) => `{"id": ${id},"name":"${name}"}`,
  (id, name) => `{"id":${id},"name":"${name}","tag":null}`,
  (id, name) => `[{"id":${id},"name":"${name}"}]`,
  (id, name) => `{"id":${id},"name":"${name}"}\n`,
  (id, name) => `\n{"id":${id},"name":"${name}"}`,
];

/** Bodies drawn from those, a third of them with a byte put in, taken out or replaced. */
function* bodies(count: number, seed: number): Generator<Buffer, void> {
  const below = seeded(seed);
  const one = <T>(all: readonly [T, ...T[]] | readonly T[]): T => all[below(all.length)] as T;
  const text = (): string => one(pieces) + one(pieces);

  for (let run = 0; run < count; run++) {
    const body = Buffer.from(one(frames)(one(ids), text(), text()), "latin1");
    if (below(3) > 0) {
      yield body;
      continue;
    }
    const index = below(body.length);
    const put = Buffer.from([below(256)].slice(below(2)));
    yield Buffer.concat([body.subarray(0, index), put, body.subarray(index + below(2))]);
  }
}

test(`a plain body is what the strict reader keeps of it, in ${runs} bodies`, (t) => {
  const counts = { plain: 0, strict: 0, refused: 0 };
  for (const body of bodies(runs, 20_261_122)) {
    const wrong = disagreement(body, isPlain);
    assert.equal(wrong, undefined, `${JSON.stringify(body.toString("latin1"))}: ${wrong}`);

    const json = strict(body);
    if (json === undefined) {
      counts.refused++;
      continue;
    }
    counts[isPlain(json) ? "plain" : "strict"]++;

    // For a host's own store, and back; and for the response.
    const plant = newPlantOf(json);
    assert.equal(newPlantJson(plant), json);
    const { name, tag } = plant;
    assert.equal(plantJson(json), JSON.stringify({ name, tag }));
  }
  t.diagnostic(JSON.stringify(counts));
  const few = Object.entries(counts).filter(([, count]) => count < runs / 50);
  assert.deepEqual(few, [], "each kind must have come often");
});

const plainString = '"[ !#-[\\]-~]*"';
const broken: readonly (readonly [what: string, form: string])[] = [
  ["a name with a backslash", `{"id":(0|-?[1-9]\\d{0,17}),"name":"[ !#-~]*"}`],
  ["a name with DEL or a control character", `{"id":(0|-?[1-9]\\d{0,17}),"name":"[^"\\\\]*"}`],
  ["an id of 19 digits", `{"id":(0|-?[1-9]\\d{0,18}),"name":${plainString}}`],
  ["an id that begins with 0", `{"id":(-?\\d{1,18}),"name":${plainString}}`],
  ["a member twice", `{"id":(0|-?[1-9]\\d{0,17}),"name":${plainString}(,"tag":${plainString})*}`],
  ["a space", `{"id": ?(0|-?[1-9]\\d{0,17}),"name":${plainString}}`],
  ["a line feed behind it", `{"id":(0|-?[1-9]\\d{0,17}),"name":${plainString}}\n?`],
];
for (const [what, form] of broken) {
  test(`control: a form that lets ${what} through is caught`, () => {
    const isFast = (text: string): boolean => new RegExp(`^(?:${form})$`).test(text);
    const found = [...bodies(50_000, 7)].find((body) => disagreement(body, isFast) !== undefined);
    assert.ok(found !== undefined);
  });
}

/** The oldest and the newest compiler that the declarations are for, without skipLibCheck. */
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command, modules, pack } from "../support/package.ts";
import { temporaryFolder } from "../support/support.ts";

const consumer = temporaryFolder();
const installed = join(consumer, "node_modules", "plant-store");
mkdirSync(installed, { recursive: true });
const unpacked = command(
  installed,
  "tar",
  "-xzf",
  pack(),
  "--strip-components=1"
);
assert.equal(unpacked.status, 0, unpacked.said);
writeFileSync(join(consumer, "package.json"), '{"type":"module"}');
writeFileSync(
  join(consumer, "consumer.ts"),
  `import { createPlantServer, openJournal } from "plant-store";
import { openNats, type NatsOptions } from "plant-store/nats";
const options: NatsOptions = { keys: false };
const stores = [await openJournal("a"), await openNats("b", options)];
for (const store of stores) createPlantServer({ store, tokens: ["garden"] });
`
);

/** What a compiler says of a consumer of both entries. */
const compile = (compiler: string) =>
  command(
    consumer,
    process.execPath,
    join(compiler, "bin", "tsc"),
    ...["--noEmit", "--strict", "--exactOptionalPropertyTypes"],
    ...["--target", "es2022", "--module", "nodenext", "--types", "node"],
    ...["--typeRoots", join(modules, "@types"), "consumer.ts"]
  );

const oldest = join(import.meta.dirname, "node_modules", "typescript-5.0");
const between = join(import.meta.dirname, "node_modules", "typescript");
const newest = join(modules, "typescript");

for (const [name, compiler] of [
  ["5.0", oldest],
  ["5.9", between],
  ["7.0", newest]
] as const) {
  test(`TypeScript ${name} compiles the declarations of both entries`, () => {
    const { status, stdout } = command(
      consumer,
      process.execPath,
      join(compiler, "bin", "tsc"),
      "--version"
    );
    assert.equal(status, 0);
    assert.ok(stdout.includes(`Version ${name}.`), stdout);
    const { said } = compile(compiler);
    assert.equal(said, "");
  });
}

test("the control: what only a newer compiler knows is found", () => {
  appendFileSync(
    join(installed, "dist", "index.d.ts"),
    "export declare const bytes: Buffer<ArrayBuffer>;\n"
  );
  assert.equal(compile(newest).said, "");
  assert.match(compile(oldest).said, /TS2315: Type 'Buffer' is not generic/);
});

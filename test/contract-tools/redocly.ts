/** Redocly checks the description by its recommended rules, and the server by the description. */
import assert from "node:assert/strict";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { command } from "../support/package.ts";
import {
  root,
  startProcess,
  temporaryFolder,
  token,
  type Running
} from "../support/support.ts";

const here = import.meta.dirname;
const folder = temporaryFolder();
const description = join(folder, "openapi.json");
copyFileSync(join(root, "dist", "openapi.json"), description);
copyFileSync(
  join(here, "plants.arazzo.yaml"),
  join(folder, "plants.arazzo.yaml")
);

/** Runs Redocly without its telemetry and its search for a newer version. */
const redocly = (...args: readonly string[]) =>
  command(
    folder,
    "env",
    "REDOCLY_TELEMETRY=off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE=true",
    join(here, "node_modules", ".bin", "redocly"),
    ...args
  );

const lint = (path: string) =>
  redocly("lint", path, "--extends=recommended-strict");

test("the description has no error and no warning by the recommended rules", () => {
  const { status, said } = lint(description);
  assert.equal(status, 0, said);
  assert.match(said, /is valid/);
});

test("the control: a description without servers has an error", () => {
  const { servers, ...others } = JSON.parse(readFileSync(description, "utf8"));
  assert.ok(servers);
  writeFileSync(join(folder, "bare.json"), JSON.stringify(others));
  const { status, said } = lint("bare.json");
  assert.equal(status, 1);
  assert.match(said, /servers/i);
});

const respect = ({ url }: Running, bearer: string) =>
  redocly(
    "respect",
    "plants.arazzo.yaml",
    "--server",
    `store=${url}`,
    "--input",
    `token=${bearer}`
  );

test("every response of the running server is as described, those of refused requests too", async () => {
  const server = await startProcess();
  const { status, said } = respect(server, token);
  await server.end();
  assert.equal(status, 0, said);
  assert.match(said, /Steps: 3 passed, 3 total/);
  assert.match(said, /schema check/);
});

test("the control: with an unknown token the steps fail", async () => {
  const server = await startProcess();
  const { status, said } = respect(server, "weeds");
  await server.end();
  assert.equal(status, 1);
  assert.match(said, /withTag[^]*failed/);
});

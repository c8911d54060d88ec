/** What is installed: nothing at run time, and for development what package.json names exactly. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { root } from "../support/support.ts";

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const lock = readFileSync(join(root, "package-lock.json"), "utf8");

test("there is no dependency at run time, and three packages of development, with exact versions", () => {
  const kinds = Object.keys(manifest).filter((key) =>
    key.toLowerCase().endsWith("dependencies")
  );
  assert.deepEqual(kinds, ["devDependencies"]);
  const { devDependencies } = manifest;
  assert.deepEqual(Object.keys(devDependencies).sort(), [
    "@types/node",
    "tsx",
    "typescript"
  ]);
  for (const version of Object.values(devDependencies))
    assert.match(String(version), /^\d+\.\d+\.\d+$/);
});

test("no install script of a package is needed: each is named, and switched off", () => {
  const { packages } = JSON.parse(lock) as {
    readonly packages: Readonly<
      Record<string, { readonly hasInstallScript?: boolean }>
    >;
  };
  const withScripts = Object.entries(packages)
    .filter(([, { hasInstallScript = false }]) => hasInstallScript)
    .map(([path]) => [path.replace(/^.*node_modules\//, ""), false] as const);
  assert.ok(withScripts.length > 0, "the control: the lock file names them");
  assert.deepEqual(manifest.allowScripts, Object.fromEntries(withScripts));
});

test("the lock file records no download address", () => {
  assert.doesNotMatch(lock, /"resolved": "https?:/);
  assert.match(lock, /"lockfileVersion"/);
});

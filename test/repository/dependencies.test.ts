/** What is installed: nothing at run time, and for development what package.json names exactly. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { root } from "../support/support.ts";

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const lock = readFileSync(join(root, "package-lock.json"), "utf8");

test("packages of development are the only dependencies", () => {
  const kinds = Object.keys(manifest).filter((key) =>
    key.toLowerCase().endsWith("dependencies")
  );
  assert.deepEqual(kinds, ["devDependencies"]);
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

test("what is installed has an exact version and a hash in a lock file, which has no download address", () => {
  const tools = ["bench", "contract-tools", "lint", "tools"];
  for (const folder of ["", ...tools.map((name) => `test/${name}`)]) {
    const text = readFileSync(join(root, folder, "package-lock.json"), "utf8");
    assert.doesNotMatch(text, /"resolved": "https?:/);
    const { packages } = JSON.parse(text) as {
      readonly packages: Readonly<
        Record<string, { readonly integrity?: string }>
      >;
    };
    const { "": own, ...others } = packages;
    const { dependencies, devDependencies } = JSON.parse(
      readFileSync(join(root, folder, "package.json"), "utf8")
    );
    const versions = Object.values({ ...dependencies, ...devDependencies });
    assert.ok(own && versions.length > 2);
    for (const version of versions)
      assert.match(
        `${version}`,
        /^(?:npm:[\w-]+@)?\d+\.\d+\.\d+(?:-[\w.-]+)?$/
      );
    for (const [path, { integrity = "" }] of Object.entries(others))
      assert.match(integrity, /^sha512-/, path);
  }
  for (const name of ["run", "tools", "places"])
    assert.doesNotMatch(
      readFileSync(join(root, ".ci", name), "utf8"),
      /npm install|npm ci(?! .*--ignore-scripts)/
    );
});

/** The READMEs' recipes, as their tests run them. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { store } from "./operator.ts";
import { cleanEnvironment, root, temporaryFolder, token } from "./support.ts";
import { outcomeOf, unless } from "./tools.ts";
import { seconds } from "./until.ts";

const folders = [
  "src/program",
  "src/program/recipes",
  "src/journal",
  "src/http"
];
const text = folders
  .map((folder) => readFileSync(join(root, folder, "README.md"), "utf8"))
  .join();

/** The file of a name, or the one block, whatever its language: as somebody copies it. */
export function recipeOf(name: string): string {
  const file = join(root, "src/program/recipes", name);
  if (existsSync(file)) return readFileSync(file, "utf8");
  const found = [...text.matchAll(/^```\w+ (\S+)\n([\s\S]*?)^```$/gm)].filter(
    ([, known]) => known === name
  );
  assert.equal(found.length, 1, `one block ${name}`);
  return found[0]?.[2] ?? "";
}

/** A recipe with some of its texts replaced: each must be there. */
export function recipeWith(
  name: string,
  replaced: Readonly<Record<string, string>>
): string {
  return Object.entries(replaced).reduce((recipe, [from, to]) => {
    assert.ok(recipe.includes(from), `${name} must have: ${from}`);
    return recipe.replaceAll(from, () => to);
  }, recipeOf(name));
}

/** Returns the command of a unit, with a folder in the place of those that systemd makes. */
export function commandOf(name: string, folder: string) {
  const [, line = ""] =
    /^ExecStart=((?:.*\\\n)*.+)$/m.exec(recipeOf(name)) ?? [];
  const [, ...words] = line
    .replaceAll("\\\n", "")
    .split(/\s+/)
    .map((word) =>
      word.replace(
        /\/var\/lib\/plant-store|\$\{CREDENTIALS_DIRECTORY\}/,
        () => folder
      )
    );
  const program = words.findIndex((word) => /\.c?js$/.test(word));
  assert.ok(program >= 0, line);
  return { nodeArgs: words.slice(0, program), args: words.slice(program + 1) };
}

/** Runs a recipe's commands in a folder, with this node as its node, and these commands besides. */
export function runRecipe(
  name: string,
  cwd: string,
  node: string,
  commands = "",
  flag = ""
): void {
  const path = temporaryFolder();
  symlinkSync(node, join(path, "node"));
  const { status, stderr } = spawnSync(
    "sh",
    ["-ec", `${recipeOf(name).trimEnd()} ${flag}`],
    {
      cwd,
      encoding: "utf8",
      timeout: seconds(120),
      env: cleanEnvironment({
        PATH: `${path}:${process.env["PATH"]}:${commands}`
      })
    }
  );
  assert.equal(status, 0, `${name}: ${stderr}`);
}

/** A folder that the recipes take for the checkout, with the program in one file. */
export function bundled(flag = ""): string {
  const folder = temporaryFolder();
  for (const name of ["src", "node_modules", "package.json"]) {
    symlinkSync(join(root, name), join(folder, name));
  }
  runRecipe("bundle", folder, process.execPath, "", flag);
  writeFileSync(join(folder, "sea.json"), recipeOf("sea.json"));
  return folder;
}

/** A build of the program takes a plant, and ends as it should: well, and after a mistake. */
export async function assertServes(
  command: string,
  ...args: readonly string[]
): Promise<void> {
  const cwd = temporaryFolder();
  const env = cleanEnvironment({ PLANTS_TOKEN: token });
  const running = await outcomeOf(
    spawn(command, [...args, "--port", "0"], { cwd, env })
  );
  assert.ok(typeof running === "object", String(running));
  await store(running, "9007199254740993");
  assert.equal(await running.end(), 0);
  assert.match(
    readFileSync(join(cwd, "plants.ndjson"), "utf8"),
    /"id":9007199254740993,/
  );
  const mistaken = spawnSync(command, [...args, "--port", "tea"], {
    cwd,
    env,
    encoding: "utf8"
  });
  assert.equal(mistaken.status, 64);
  assert.equal(mistaken.stdout, "");
}

const { PLANT_TEST_NODES = "" } = process.env;
export const noOtherNode = unless(
  PLANT_TEST_NODES !== "",
  "PLANT_TEST_NODES is not set: .ci/run installs other Nodes and sets it"
);

/** This Node and the others that are there, with their versions. */
export const nodes = [
  process.execPath,
  ...PLANT_TEST_NODES.split(":").filter(Boolean)
].map((path) => {
  const version = spawnSync(path, ["--version"], {
    encoding: "utf8"
  }).stdout.trim();
  return { path, version, major: Number(/\d+/.exec(version)?.[0]) };
});

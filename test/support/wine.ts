/** The program under Wine, by Node's builds for Windows: PLANT_TEST_WINDOWS_NODES lists node.exe. */
import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { preload } from "./operator.ts";
import { exchange } from "./exchange.ts";
import {
  cleanEnvironment,
  complaintsOf,
  post,
  program,
  temporaryFolder,
  token
} from "./support.ts";
import { missing, unless } from "./tools.ts";

const { PLANT_TEST_WINDOWS_NODES: given = "" } = process.env;

/** Wine's server opens the files. As root it could write a read-only one. */
const wrapper = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"];
const [first = "wine", ...words] = [
  ...(process.getuid?.() === 0 ? wrapper : []),
  "wine"
];

/** Why the program cannot run under Wine here, or false. */
export const noWine =
  unless(
    given !== "",
    "PLANT_TEST_WINDOWS_NODES is not set: .ci/run installs Node's builds for Windows"
  ) || missing([first, ...words, "--version"]);

/** Node's builds for Windows. */
export const windowsNodes = noWine ? [] : given.split(":").filter(Boolean);

/** Wine's settings are in a home of its own: the user's stay as they are. */
const home = mkdtempSync(join(tmpdir(), "plant-store-wine-"));
const environment = {
  HOME: home,
  WINEPREFIX: join(home, "prefix"),
  WINEDEBUG: "-all",
  LC_ALL: "C.UTF-8",
  WINEDLLOVERRIDES: "winemenubuilder.exe,mscoree,mshtml=d"
};
const children = new Set<ChildProcess>();
after(() => {
  for (const child of children) child.kill("SIGKILL");
  const env = { ...cleanEnvironment(), ...environment };
  if (!noWine)
    for (const flag of ["-k", "-w"]) spawnSync("wineserver", [flag], { env });
  rmSync(home, { recursive: true, force: true });
});

/** A path as Windows has it. */
export const windowsPath = (path: string): string =>
  `Z:${path.replaceAll("/", "\\")}`;

/** Starts a program. Its output goes to files: Node's build for Windows cannot open Wine's pipes. */
function wine(args: readonly string[], cwd: string, env = {}) {
  const paths = ["stdout", "stderr"].map((name) =>
    join(temporaryFolder(), name)
  );
  const files = paths.map((path) => openSync(path, "a"));
  const child = spawn(first, [...words, ...args], {
    cwd,
    env: { ...cleanEnvironment(env), ...environment },
    stdio: ["ignore", ...files]
  });
  for (const file of files) closeSync(file);
  children.add(child);
  const ended = once(child, "exit").then(
    ([code, signal]) => (code ?? signal) as number | string
  );
  const [stdoutPath = "", stderrPath = ""] = paths;
  const stderr = (): string => readFileSync(stderrPath, "utf8");
  return {
    child,
    ended,
    stdoutPath,
    stdout: () => readFileSync(stdoutPath, "utf8"),
    stderr
  };
}

/** Runs a program under Wine to its end. */
export async function runWine(
  args: readonly string[],
  cwd = temporaryFolder()
) {
  for (let tries = 1; ; tries++) {
    const { ended, stdout, stderr } = wine(args, cwd);
    const code = await ended;

    // Wine itself fails now and then, without a byte of output: no command of ours ends so.
    if (code === 1 && stdout() === "" && stderr() === "" && tries < 3) continue;
    return { code, stdout: stdout(), stderr: complaintsOf(stderr()) };
  }
}

/** Ends the program as a closed window or Ctrl-Break does: under Wine it has no console. */
export const signalled = preload(`import { existsSync } from "node:fs";
  const timer = setInterval(() => {
    const name = ["SIGHUP", "SIGBREAK"].find((each) => existsSync(each));
    if (name) process.emit(name, name), clearInterval(timer);
  }, 50);`);

/** Starts the program, and waits until it listens. */
export async function startWine(
  node: string,
  {
    args = [] as readonly string[],
    cwd = temporaryFolder(),
    env = {},
    built = program
  }
) {
  const { child, ended, stdoutPath, stdout, stderr } = wine(
    [node, ...signalled, windowsPath(built), "--port", "0", ...args],
    cwd,
    { PLANTS_TOKEN: token, ...env }
  );
  const failed = ended.then((code) =>
    assert.fail(`it ended with ${code}: ${stderr()}`)
  );
  failed.catch(() => undefined);
  const changes = watch(stdoutPath);
  while (!stdout().includes("\n"))
    await Promise.race([once(changes, "change"), failed]);
  changes.close();
  const [, url = "", port] = /listening on (\S+:(\d+))\n/.exec(stdout()) ?? [];
  return {
    url,
    stdout,
    stderr,

    /** Posts a plant. Returns the status, and whether the response is a replay. */
    async post(id: string, fields?: string) {
      const request = post(`{"id":${id},"name":"Fern"}`, fields);
      const [answer] = await exchange(Number(port), request, { answers: 1 });
      return [answer?.status, answer?.headers["idempotency-replayed"]];
    },

    /** Ends it, and returns its exit code or the deadly signal. */
    end(how: "SIGHUP" | "SIGBREAK" | "SIGKILL"): Promise<number | string> {
      if (how === "SIGKILL") child.kill(how);
      else writeFileSync(join(cwd, how), "");
      return ended;
    }
  };
}

if (!noWine) {
  const setting = [
    "add",
    String.raw`HKCU\Software\Wine`,
    "/v",
    "Version",
    "/d",
    "win10",
    "/f"
  ];
  assert.equal((await runWine(["reg", ...setting])).code, 0);
}

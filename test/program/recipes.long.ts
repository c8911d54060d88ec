/** The recipes, run: the unit, rotation by logrotate, backup, shipping, loading. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync
} from "node:fs";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { gunzipSync, gzipSync } from "node:zlib";
import { limitTable } from "../../src/config.ts";
import { catalogue } from "../../src/http/errors.ts";
import { Load } from "../nats/load.ts";
import { run } from "../support/in-process.ts";
import { fetchPlant, logged } from "../support/operator.ts";
import { journalWith, record } from "../support/journals.ts";
import { command } from "../support/package.ts";
import { commandOf, nodes, recipeOf, recipeWith } from "../support/recipes.ts";
import { listen } from "../support/serving.ts";
import {
  cleanEnvironment,
  program,
  root,
  runningOf,
  startProcess,
  temporaryFolder,
  token,
  type RunningProcess
} from "../support/support.ts";
import { missing } from "../support/tools.ts";
import { seconds, until } from "../support/until.ts";

const timeout = seconds(60);

/** Posts a plant: the status, or the error's number. */
async function post(url: string, id: number): Promise<number> {
  const answer = await fetchPlant(
    url,
    JSON.stringify({ id, name: "Fern ".repeat(id % 300) })
  );
  const { error = answer.status } = (await answer.json()) as {
    readonly error?: number;
  };
  return error;
}

/** The ids of the plants in a journal's text, whole lines only. */
const idsOf = (text: string): readonly number[] =>
  [...text.matchAll(/^\{"seq".*"plant":\{"id":(\d+),.*\}\n/gm)].map(([, id]) =>
    Number(id)
  );

// systemd

const noSystemd = missing(["systemd-analyze", "--version"]);
const unit = "plant-store.service";

test(
  "systemd finds no fault in the units, and exposes the service at most 1.2 of 10",
  { skip: noSystemd },
  () => {
    const cwd = temporaryFolder();
    const analyze = (...args: readonly string[]) =>
      spawnSync("systemd-analyze", args, { cwd, encoding: "utf8" });
    writeFileSync(
      join(cwd, unit),
      recipeWith(unit, { "/usr/bin/node": process.execPath })
    );
    const secure = ["security", "--offline=yes", "--threshold=12", `./${unit}`];
    const found = analyze(...secure);
    assert.equal(found.status, 0, found.stdout);
    assert.match(
      found.stdout,
      /exposure level for plant-store\.service: 1\.[0-2] OK/
    );
    const others = [
      "plant-store.socket",
      "plant-store-verify.service",
      "plant-store-verify.timer"
    ];
    for (const name of others)
      writeFileSync(
        join(cwd, name),
        recipeOf(name).replace("/usr/bin/node", process.execPath)
      );
    for (const name of [unit, ...others]) {
      const verified = analyze("verify", `./${name}`);
      assert.equal(verified.status, 0);
      assert.equal(verified.stderr, "");
    }
    // The control: with one line less it is exposed more, and a wrong line is reported.
    writeFileSync(
      join(cwd, unit),
      recipeWith(unit, { "CapabilityBoundingSet=": "Tea=yes" })
    );
    assert.notEqual(analyze(...secure).status, 0);
    assert.match(analyze("verify", `./${unit}`).stderr, /Tea/);
  }
);

test("the command of the verification fails for a damaged journal, not for a torn one", async () => {
  const name = "plant-store-verify.service";
  const closed = join(temporaryFolder(), "plants.ndjson");
  await journalWith(closed, { id: 1n, name: "Fern" });
  const whole = readFileSync(closed, "utf8");
  const [, success] = /^SuccessExitStatus=(.*)$/m.exec(recipeOf(name)) ?? [];
  for (const [text, code] of [
    [whole, 0],
    [whole.slice(0, -7), Number(success)],
    [whole.replace("Fern", "Farn"), 65]
  ] as const) {
    // Without the mark of a closed journal: its torn end would be damage.
    const folder = temporaryFolder();
    writeFileSync(join(folder, "plants.ndjson"), text);
    const { code: found } = await run(commandOf(name, folder).args);
    assert.equal(found, code);
  }
});

/** A place that starts a container gives it more seconds to end than the server's drain takes. */
function assertOutlastsDrain(seconds: string | undefined) {
  assert.ok(Number(seconds) * 1_000 > limitTable.drainMillis.defaultValue);
}

test("the unit waits longer for the end than the drain, and restarts for ever, where that helps", () => {
  const text = recipeOf(unit);
  assertOutlastsDrain(/^TimeoutStopSec=(\d+)$/m.exec(text)?.[1]);
  assert.match(text, /^StartLimitIntervalSec=0$/m);
  assert.match(text, /^RestartSec=5$/m);
  // The signal ends Node while it boots, which systemd takes for a clean end.
  assert.match(text, /^RestartForceExitStatus=SIGHUP$/m);
  // A connection that waits would start the service in a loop, after each exit that is not restarted.
  assert.match(recipeOf("plant-store.socket"), /^TriggerLimitBurst=5$/m);
  const [, codes = ""] = /^RestartPreventExitStatus=(.*)$/m.exec(text) ?? [];
  assert.deepEqual(codes.split(" "), ["64", "65", "75", "78"]);
  const readme = readFileSync(join(root, "src/program/README.md"), "utf8");
  for (const code of codes.split(" "))
    assert.match(readme, new RegExp(`^\\| ${code} \\|`, "m"));
});

const noSystemctl = missing(["systemctl", "--version"]);

/**
 * Runs the commands of a recipe that installs a unit, in a folder in place of the root, and without
 * those that the test names.
 */
function install(recipe: string, ...leftOut: readonly string[]) {
  const folder = temporaryFolder();
  const units = join(folder, "etc/systemd/system");
  mkdirSync(units, { recursive: true });
  const commands = recipeWith(recipe, {
    ...Object.fromEntries(leftOut.map((line) => [`${line}\n`, ""])),
    "systemctl daemon-reload\n": "",
    "/opt/": `${folder}/opt/`,
    "/etc/": `${folder}/etc/`,
    "enable --now": `enable --root=${folder}`
  });
  const { status, said } = command(root, "sh", "-ec", commands);
  assert.equal(status, 0, said);
  return { folder, units, said };
}

/** Runs a unit's command with the token that was installed, as systemd provides it: mode 0440. */
async function assertUnitServes(
  name: string,
  { folder, said }: ReturnType<typeof install>,
  built: string
): Promise<void> {
  const credentials = join(folder, "etc/plant-store");
  chmodSync(join(credentials, "tokens"), 0o440);
  const { nodeArgs, args } = commandOf(name, credentials);
  const server = await startProcess({
    program: join(folder, "opt/plant-store", built),
    nodeArgs,
    args,
    env: { PLANTS_TOKEN: "" }
  });
  const [bearer] = /^[\w-]{43}$/m.exec(said) ?? [];
  assert.equal((await fetchPlant(server.url, undefined, bearer)).status, 200);
  assert.equal(await server.end(), 0);
  assert.ok(existsSync(join(credentials, "plants.ndjson")));
}

test(
  "the commands for systemd install the program and a token, enable the units, and the unit's command serves",
  { timeout, skip: noSystemctl },
  async () => {
    const installed = install("systemd", "npm ci && npm run build");
    const { folder, units } = installed;
    const wantedBy = (target: string) =>
      readdirSync(join(units, `${target}.wants`));
    assert.deepEqual(wantedBy("multi-user.target"), [unit]);
    assert.deepEqual(wantedBy("sockets.target"), ["plant-store.socket"]);
    assert.deepEqual(wantedBy("timers.target"), ["plant-store-verify.timer"]);
    assert.deepEqual(readdirSync(join(folder, "opt/plant-store")).sort(), [
      "dist",
      "package.json"
    ]);
    await assertUnitServes(unit, installed, "dist/server.js");
  }
);

// A small machine

test(
  "the commands for a small machine install a unit whose command serves",
  { timeout, skip: noSystemctl },
  async () => {
    const installed = install(
      "small",
      "npm ci",
      "systemctl restart systemd-journald"
    );
    const { folder, units } = installed;
    assert.ok(
      existsSync(join(folder, "etc/systemd/journald.conf.d/small.conf"))
    );

    const small = join(units, `${unit}.d`, "small.conf");
    const verify = () =>
      spawnSync("systemd-analyze", ["verify", `./${unit}`], {
        cwd: units,
        encoding: "utf8"
      }).stderr;
    const node = { "/usr/bin/node": process.execPath };
    writeFileSync(join(units, unit), recipeWith(unit, node));
    writeFileSync(small, recipeWith("small.conf", node));
    assert.equal(verify(), "");
    writeFileSync(small, recipeWith("small.conf", { "MemoryMax=": "Tea=" }));
    assert.match(verify(), /Tea/, "the control");
    await assertUnitServes("small.conf", installed, "plant-store.cjs");
  }
);

// A container

test("the container's commands work from a clone, up to what podman does", async () => {
  const cwd = temporaryFolder();
  const tools = temporaryFolder();
  for (const name of ["src", "package.json", "dist"])
    symlinkSync(join(root, name), join(cwd, name));
  symlinkSync(process.execPath, join(tools, "node"));
  writeFileSync(join(tools, "npm"), "#!/bin/sh\n", { mode: 0o755 });
  const podman = '#!/bin/sh\n[ "$1" = secret ] && cat > secret\necho "$@"\n';
  writeFileSync(join(tools, "podman"), podman, { mode: 0o755 });
  const { stdout, stderr } = spawnSync("sh", ["-ec", recipeOf("container")], {
    cwd,
    encoding: "utf8",
    env: cleanEnvironment({ PATH: `${tools}:${process.env["PATH"]}` })
  });
  const [, tag = "", file = "", seconds, args] =
    /^secret create tokens -\nbuild --tag (\S+) --file (\S+) \.\nrun --stop-timeout (\d+) .* --secret tokens .* \1 (.*)\n$/.exec(
      stdout
    ) ?? [];
  assertOutlastsDrain(seconds);
  assert.equal(args, "--tokens /run/secrets/tokens", stdout);
  assert.ok(recipeOf("kubernetes.yaml").includes(`image: ${tag}\n`), tag);
  const copied = [
    ...readFileSync(join(cwd, file), "utf8").matchAll(/^COPY (\S+)/gm)
  ];
  assert.deepEqual(
    copied.map(([, from = ""]) => existsSync(join(cwd, from))),
    [true, true]
  );
  const server = await startProcess({
    cwd,
    args: ["--tokens", "secret"],
    env: { PLANTS_TOKEN: "" }
  });
  assert.equal(
    (await fetchPlant(server.url, undefined, stderr.trim())).status,
    200
  );
  await server.end();
});

// Kubernetes

const noKubectl = missing(["kubectl", "version", "--client"]);
/** A `?` outside of quotes and within braces: there YAML 1.1, and so kubectl, ends a text. */
const question = /^[^#\n]*\{(?:[^"#\n]|"[^"\n]*")*\?/m;

test("the manifests are YAML 1.1, too, which kubectl reads", () => {
  const cwd = temporaryFolder();
  writeFileSync(join(cwd, "kustomization.yaml"), "resources: [a.yaml]");
  const isRead = (text: string): boolean => {
    writeFileSync(join(cwd, "a.yaml"), text);
    return (
      !question.test(text) &&
      (noKubectl !== false ||
        spawnSync("kubectl", ["kustomize", cwd]).status === 0)
    );
  };
  for (const name of ["kubernetes.yaml", "kubernetes-nats.yaml"])
    assert.ok(isRead(recipeOf(name)), name);
  assert.ok(
    !isRead(
      recipeOf("kubernetes.yaml").replace("path: /livez", "path: /livez?a")
    ),
    "the control"
  );
});

// Reading

test("the recipe for a compressed journal verifies it", async () => {
  const cwd = temporaryFolder();
  symlinkSync(join(root, "dist"), join(cwd, "dist"));
  const path = await journalWith(join(cwd, "a"), { id: 1n, name: "Fern" });
  const whole = readFileSync(path, "utf8");
  const compressed = gzipSync(whole);
  for (const [content, code] of [
    [compressed, 0],
    [gzipSync(whole.replace("Fern", "x")), 65],
    ["", 65],
    [compressed.subarray(9), 65]
  ] as const) {
    writeFileSync(join(cwd, "plants.ndjson-1.gz"), content);
    const { status } = command(cwd, "sh", "-c", recipeOf("compressed"));
    assert.equal(status, code);
  }
});

test(
  "the recipe for a readable log prints its lines, and others as they are",
  { skip: missing(["jq", "--version"]) },
  async () => {
    const server = await startProcess();
    await server.end();
    const input = `another line\n${server
      .events()
      .map((event) => JSON.stringify(event))
      .join("\n")}`;
    const line = recipeOf("readable").replace(" log", " -");
    const { stdout } = spawnSync("sh", ["-c", line], {
      encoding: "utf8",
      input
    });
    assert.match(
      stdout,
      /^another line\n\d{4}-\d\d-\d\dT[\d:]+Z 30 serving \{.*"url":"http:.*\n/
    );
  }
);

// logrotate

const noLogrotate = missing(["logrotate", "--version"]);

/** Rotates now, by the recipe with some of its texts replaced; then this command is run. */
function rotate(
  cwd: string,
  then: string,
  replaced: Readonly<Record<string, string>> = {},
  force: readonly string[] = ["-f"]
): void {
  const config = recipeWith("logrotate.conf", {
    "/var/lib/plant-store": cwd,
    "systemctl kill --signal=HUP --kill-whom=main plant-store.service": then,
    ...replaced
  });
  writeFileSync(join(cwd, "conf"), config, { mode: 0o644 });
  const { status, said } = command(
    cwd,
    "logrotate",
    ...force,
    "-s",
    "state",
    "conf"
  );
  assert.equal(status, 0);
  assert.equal(said, "");
}

const hangUp = (server: RunningProcess): string =>
  `kill -HUP ${server.process.pid}`;

/** All plants of a folder's journals, packed or not. */
const idsIn = (folder: string): readonly number[] =>
  readdirSync(folder)
    .filter((name) => /^plants\.ndjson(?!\.lock-)/.test(name))
    .map((name) => ({ name, bytes: readFileSync(join(folder, name)) }))
    .flatMap(({ name, bytes }) =>
      idsOf((name.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString())
    );

test(
  "logrotate rotates under load, by the recipe: no plant is refused, lost or kept twice",
  { skip: noLogrotate, timeout },
  async () => {
    const cwd = temporaryFolder();
    const server = await startProcess({ cwd });
    // The recipe names files by the second, as time(2) has it: a few milliseconds behind Date.now.
    const posting = new Load(server.port, 4);
    for (let count = 1; count <= 3; count++) {
      await posting.more(40);
      const nextSecond = Math.floor(Date.now() / 1_000) * 1_000 + 1_000;
      await until("a new second", () => Date.now() >= nextSecond + 100);
      rotate(cwd, hangUp(server));
      await until("the server has a new file", () =>
        existsSync(join(cwd, "plants.ndjson"))
      );
    }
    await posting.more(40);
    await posting.end();
    assert.equal(await server.end(), 0);
    const names = readdirSync(cwd).filter((name) =>
      name.startsWith("plants.ndjson-")
    );
    assert.deepEqual(names.map((name) => name.endsWith(".gz")).sort(), [
      false,
      true,
      true
    ]);
    assert.deepEqual([...posting.refused], []);
    const sorted = (ids: readonly number[]) => ids.toSorted((a, b) => a - b);
    assert.deepEqual(sorted(idsIn(cwd)), sorted(posting.acknowledged));
  }
);

test(
  "logrotate leaves a journal with a header alone, and rotates it once it has a plant",
  { skip: noLogrotate },
  async () => {
    const cwd = temporaryFolder();
    const path = join(cwd, "plants.ndjson");
    const rotatedAfterAWeek = () => {
      const state = `logrotate state -- version 2\n"${path}" 2020-1-1-0:0:0\n`;
      writeFileSync(join(cwd, "state"), state, { mode: 0o600 });
      rotate(cwd, "true", {}, []);
      return readdirSync(cwd).some((name) => name.startsWith("plants.ndjson-"));
    };
    await journalWith(path);
    assert.equal(rotatedAfterAWeek(), false);
    await journalWith(path, { id: 1n, name: "" });
    assert.equal(rotatedAfterAWeek(), true);
  }
);

for (const [says, commandFor, replaced] of [
  [
    "compress without delaycompress, before the server has heard of it",
    () => "true",
    { "    delaycompress\n": "" }
  ],
  ["copytruncate", hangUp, { "    nocreate\n": "    copytruncate\n" }]
] as const) {
  test(
    `with ${says}, the server refuses rather than loses`,
    { skip: noLogrotate, timeout },
    async () => {
      const cwd = temporaryFolder();
      const server = await startProcess({
        cwd,
        args: ["--rotation-timeout", "100"]
      });
      for (const id of [1, 2, 3]) assert.equal(await post(server.url, id), 200);
      rotate(cwd, commandFor(server), replaced);
      // It may have seen that for itself, and be gone.
      const answered = await post(server.url, 4).catch(() => "none");
      assert.ok(
        ["none", catalogue.unknown[0]].some((each) => each === answered)
      );
      assert.equal(await server.ended, 74, server.stderr());
      assert.match(server.stderr(), /plants\.ndjson/);
      const kept = idsIn(cwd);
      for (const id of [1, 2, 3])
        assert.ok(kept.includes(id), `${id} of ${kept}`);
    }
  );
}

// Backup

const noJq = missing(["jq", "--version"]);
const ours = { "node dist/server.js": `'${process.execPath}' '${program}'` };

test(
  "a copy of a live journal has all that was acknowledged before, and at most a torn end",
  { timeout, skip: noJq },
  async (t) => {
    const cwd = temporaryFolder();
    const server = await startProcess({ cwd });
    const posting = new Load(server.port, 4);
    const copy = recipeWith("backup", ours);
    const copies = 3;
    let torn = 0;
    for (let count = 0; count < copies; count++) {
      await posting.more(10);
      const before = [...posting.acknowledged];
      assert.equal(spawnSync("sh", ["-ec", copy], { cwd }).status, 0);
      const path = join(cwd, "backup.ndjson");
      const text = readFileSync(path, "utf8");
      const lost = (ids: readonly number[]) =>
        before.filter((id) => !ids.includes(id));
      assert.deepEqual(lost(idsOf(text)), []);
      // The control: a copy that ends before the last of them lacks it.
      const last = before.at(-1) ?? 0;
      const end = text.indexOf(`"plant":{"id":${last},`);
      assert.ok(lost(idsOf(text.slice(0, end))).includes(last));

      const { code, stdout } = await run(["verify", "--json", path]);
      const { verdict } = JSON.parse(stdout) as { readonly verdict: string };
      assert.equal(verdict, code === 0 ? "whole" : "torn", stdout);
      torn += code === 0 ? 0 : 1;
      mkdirSync(join(cwd, `${count}`));
      copyFileSync(path, join(cwd, `${count}`, "plants.ndjson"));
    }
    await posting.end();
    await server.end();
    t.diagnostic(`${torn} of ${copies} copies have a torn end`);

    // Restored, also with a torn end, it is served.
    const restored = join(cwd, `${copies - 1}`, "plants.ndjson");
    truncateSync(restored, readFileSync(restored).length - 7);
    const again = await startProcess({ cwd: dirname(restored) });
    assert.equal(await post(again.url, 1), 200);
    assert.equal(await again.end(), 0);
  }
);

test("the command for rotated files copies these beside a live server, and nothing else", async () => {
  const cwd = temporaryFolder();
  const server = await startProcess({ cwd });
  assert.equal(await post(server.url, 1), 200);
  for (const rotated of ["plants.ndjson-1", "plants.ndjson-2.gz"])
    writeFileSync(join(cwd, rotated), "");
  mkdirSync(join(cwd, "backup"));
  mkdirSync(join(cwd, "all"));
  assert.equal(command(cwd, "sh", "-ec", recipeOf("backup-rotated")).status, 0);
  assert.deepEqual(readdirSync(join(cwd, "backup")), [
    "plants.ndjson-1",
    "plants.ndjson-2.gz"
  ]);
  const control = command(cwd, "sh", "-ec", "cp plants.ndjson* all/");
  assert.notEqual(control.status, 0, "the control: the lock cannot be copied");
  assert.equal(await server.end(), 0);
});

test(
  "a copy that was made while the journal was truncated or rotated fails its check",
  { skip: noJq },
  async () => {
    const cwd = temporaryFolder();
    const path = join(cwd, "plants.ndjson");
    const plants = [1n, 2n, 3n, 4n].map((id) => ({ id, name: "Fern" }));
    await journalWith(path, ...plants);
    const lines = readFileSync(path, "utf8").split("\n");
    const cp = "cp plants.ndjson backup.ndjson";
    const copyWith = (command: string) => {
      const recipe = recipeWith("backup", { ...ours, [cp]: command });
      return spawnSync("sh", ["-ec", recipe], { cwd }).status;
    };
    assert.equal(copyWith(cp), 0, "the control");
    assert.equal(
      copyWith("printf torn | cat plants.ndjson - > backup.ndjson"),
      0
    );
    for (let count = 1; count < lines.length - 1; count++) {
      const head = `head -n ${count} plants.ndjson > backup.ndjson`;
      assert.equal(copyWith(head), 1, `${count} lines`);
      const { code } = await run(["verify", join(cwd, "backup.ndjson")]);
      assert.equal(code, 0, "by itself it looks whole");
    }
    assert.equal(
      copyWith("sed 2s/Fern/Farn/ plants.ndjson > backup.ndjson"),
      1
    );
    await journalWith(join(cwd, "new.ndjson"), ...plants);
    assert.equal(copyWith("cp new.ndjson backup.ndjson"), 1, "a rotation");
  }
);

test(
  "a restore of a torn backup and of a damaged journal ends with whole journals that have each plant once",
  { timeout, skip: noJq },
  async () => {
    const cwd = temporaryFolder();
    const path = join(cwd, "plants.ndjson");
    const plants = Array.from({ length: 12 }, (_, index) => ({
      id: 2n ** 62n + BigInt(index),
      name: `Fern, "${index}":\u2028ä`
    }));
    const idsIn = (text: string) =>
      [...text.matchAll(/"id":(\d+)/g)].map(([, id]) => BigInt(id ?? ""));
    await journalWith(path, ...plants.slice(0, 5));
    // The last write of the backup was taken back, but for its second plant, which came again.
    const synced = statSync(path).size;
    const lastWrite =
      record(6, synced, '{"id":6,"name":"Fern"}') +
      record(7, synced, `{"id":${plants[6]?.id},"name":"Fern"}`);
    writeFileSync(
      join(cwd, "backup.ndjson"),
      `${readFileSync(path, "utf8")}${lastWrite}{"seq":8,"at`
    );
    await journalWith(path, ...plants.slice(5));
    const damaged = readFileSync(path, "utf8")
      .split("\n")
      // Two that the backup has, and one that it has not.
      .map((line, index) =>
        [2, 7, 8].includes(index) ? line.replace("Fern", "Farn") : line
      )
      .join("\n");
    writeFileSync(path, damaged);
    assert.equal((await run(["verify", path])).code, 65, "the control");

    const restore = recipeWith("restore", ours);
    const { status, said } = command(cwd, "sh", "-ec", restore);
    assert.equal(status, 0, said);
    assert.match(said, /^plants-1\.ndjson: whole, records: 5, /m);
    assert.match(said, /expected a record with its checksum; bad lines: 3\b/);
    assert.equal(
      readFileSync(join(cwd, "damaged.ndjson"), "utf8"),
      damaged,
      "the damaged file is kept"
    );

    const server = await startProcess({ cwd });
    const loaded = load(cwd, server.url, { file: "rescued.txt" });
    assert.equal(loaded.status, 0, loaded.stderr);
    assert.equal(await server.end(), 0);
    const files = ["plants-1.ndjson", "plants.ndjson"];
    assert.equal((await run(["verify", ...files], {}, cwd)).code, 0);
    const { stdout } = await run(["cat", ...files], {}, cwd);
    const lost = plants[7]?.id;
    assert.deepEqual(
      idsIn(stdout).toSorted(),
      plants.map(({ id }) => id).filter((id) => id !== lost)
    );
  }
);

// Shipping

test(
  "ship.mjs prints each line once that a later one covers, and goes on from its offset",
  { timeout },
  async () => {
    const cwd = temporaryFolder();
    writeFileSync(join(cwd, "ship.mjs"), recipeOf("ship.mjs"));
    const server = await startProcess({ cwd });
    let offset = "0";
    let shipped = "";
    const counts: number[] = [];
    for (let id = 1; id <= 5; id++) {
      assert.equal(await post(server.url, id), 200);
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        ["ship.mjs", "plants.ndjson", offset],
        { cwd, encoding: "utf8" }
      );
      assert.equal(status, 0, stderr);
      offset = stderr.trim();
      shipped += stdout;
      counts.push(idsOf(shipped).length);
    }
    await server.end();
    assert.deepEqual(counts, [0, 1, 2, 3, 4], "the newest one waits");
    const text = readFileSync(join(cwd, "plants.ndjson"), "utf8");
    assert.equal(shipped, text.slice(0, Number(offset)));
    const rest = command(
      cwd,
      "tail",
      "-c",
      `+${Number(offset) + 1}`,
      "plants.ndjson"
    );
    assert.equal(shipped + rest.said, text);
  }
);

test(
  "an agent that follows the path gets every line, through a rotation too",
  { timeout },
  async () => {
    const cwd = temporaryFolder();
    const server = await startProcess({ cwd });
    assert.equal(await post(server.url, 1), 200);
    const agent = runningOf(
      spawn("sh", ["-c", `exec ${recipeOf("ship")}`], { cwd })
    );
    const hasCome = (count: number) =>
      agent.until(
        () => idsOf(agent.stdout()).length >= count,
        `${count} lines`
      );
    for (let id = 2; id <= 50; id++)
      assert.equal(await post(server.url, id), 200);
    await hasCome(50);
    assert.equal(
      command(
        cwd,
        "env",
        `PID=${server.process.pid}`,
        "sh",
        "-ec",
        recipeOf("rotation")
      ).status,
      0
    );
    // Until then plants go to the renamed file, which tail has left.
    await logged(server, "now writing to");
    for (let id = 51; id <= 100; id++)
      assert.equal(await post(server.url, id), 200);
    await hasCome(100);
    await agent.end();
    await server.end();
    assert.deepEqual(
      idsOf(agent.stdout()),
      Array.from({ length: 100 }, (_, index) => index + 1)
    );
    assert.equal(
      agent.stdout().match(/^\{"journal"/gm)?.length,
      2,
      "each file's header"
    );
  }
);

// Loading

const loader = join(root, "src/program/recipes/load.mjs");
const loadEnvironment = (url: string, bearer = token): NodeJS.ProcessEnv =>
  cleanEnvironment({ PLANTS_URL: url, PLANTS_TOKEN: bearer });

/** An address without a server. */
const nowhere = "http://127.0.0.1:2";

/** Runs load.mjs, or a copy of it, to its end. */
const load = (
  cwd: string,
  url: string,
  {
    file = "plants.txt",
    script = loader,
    node = process.execPath,
    bearer = token
  } = {}
) =>
  spawnSync(node, [script, file].filter(Boolean), {
    cwd,
    encoding: "utf8",
    env: loadEnvironment(url, bearer)
  });

/**
 * Loads a file larger than the server's window of keys with a script that is killed while it
 * posts, until a kill has met lines that are stored and not recorded.
 *
 * Its first line and its last one are no plants, its second one is empty.
 *
 * @returns the ids in the journal, and what the last run printed
 */
async function loadWithKills(text: string, ...args: readonly string[]) {
  const cwd = temporaryFolder();
  const lines = Array.from(
    { length: 900 },
    (_, index) => `{"id":${index},"name":"Færn"}`
  );
  writeFileSync(join(cwd, "load.mjs"), text);
  writeFileSync(
    join(cwd, "plants.txt"),
    ['{"id":1}', "", ...lines, '{"id":1}'].join("\n")
  );
  const server = await startProcess({
    cwd,
    args: ["--key-window", "65536", ...args]
  });
  const env = loadEnvironment(server.url);
  const journal = join(cwd, "plants.ndjson");
  const idsNow = () => idsOf(readFileSync(journal, "latin1"));

  const progress = join(cwd, "plants.txt.loaded");
  for (let kills = 0, unrecorded = 0; unrecorded === 0; kills++) {
    assert.ok(kills < 20, "no kill met a line that is stored and not recorded");
    const words = ["load.mjs", "plants.txt"];
    const loading = spawn(process.execPath, words, { cwd, env });
    const exited = once(loading, "exit");
    // A hundred records have more bytes than that.
    const { size } = statSync(journal);
    await until(
      "it loads",
      () => loading.exitCode !== null || statSync(journal).size > size + 10_000
    );
    loading.kill("SIGKILL");
    await exited;
    unrecorded =
      idsNow().length +
      2 -
      Number(readFileSync(progress, "utf8").split(" ")[1]);
  }
  const last = load(cwd, server.url, { script: "load.mjs" });
  await server.end();
  return { ...last, ids: idsNow(), lines, log: server.stderr() };
}

for (const [connections, refused] of [
  ["1024", /^(?![^]*a connection is refused)/],
  ["1", /a connection is refused: 1 are open/]
] as const) {
  test(
    `load.mjs stores each line once in a server with ${connections} connections, though it is killed and run again`,
    { timeout },
    async () => {
      const { status, stdout, stderr, ids, lines, log } = await loadWithKills(
        recipeOf("load.mjs"),
        "--max-connections",
        connections
      );
      assert.match(
        stderr,
        /^line 1 is not stored: \{"error":40014,.*\nline 903 is not stored: \{"error":40014,.*\n$/
      );
      assert.equal(status, 1);
      assert.equal(stdout, "903 lines are done, 2 of them refused\n");
      assert.equal(ids.length, lines.length);
      assert.equal(new Set(ids).size, lines.length);
      assert.match(log, refused, "the control");
    }
  );
}

test("the lines that load.mjs may repeat fit in the window of keys of a small machine", () => {
  const numberIn = (recipe: string, form: RegExp) =>
    Number(form.exec(recipeOf(recipe))?.[1]?.replaceAll("_", ""));
  const window = numberIn("small.conf", /--key-window (\d+)/);
  // A record has at most 300 bytes more than its line.
  const records =
    numberIn("load.mjs", /bytesMax = (\d[\d_]*);/) +
    numberIn("load.mjs", /linesMax = (\d+);/) * 300;
  assert.ok(records < window, `${records} bytes`);
});

test(
  "load.mjs ends with 2, and names a line, if a server closes each connection",
  { timeout },
  async () => {
    const cwd = temporaryFolder();
    writeFileSync(
      join(cwd, "load.mjs"),
      recipeWith("load.mjs", {
        "repeatMillis = windowMillis / 2": "repeatMillis = 1_000"
      })
    );
    writeFileSync(join(cwd, "a"), '\n{"id":1,"name":"Fern"}');
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.destroy();
    });
    const url = `http://127.0.0.1:${await listen(server)}`;
    const loading = runningOf(
      spawn(process.execPath, ["load.mjs", "a"], {
        cwd,
        env: loadEnvironment(url)
      })
    );
    assert.equal(await loading.ended, 2);
    assert.match(
      loading.stderr(),
      new RegExp(
        "^line 2 got no response for 1 s \\(.*\\): the server is stuck, or it closes " +
          "each connection, as it does beyond its --max-connections\\. .*\n$"
      )
    );
    assert.ok(connections > 1, "it was tried again");
  }
);

test(
  "load.mjs shows its progress on a terminal, and says on Ctrl-C how far it is",
  { timeout, skip: missing(["script", "--version"]) },
  async () => {
    const cwd = temporaryFolder();
    writeFileSync(join(cwd, "a"), '{"id":1,"name":"Fern"}\n'.repeat(20_000));
    const server = await startProcess();
    const line = `exec '${process.execPath}' '${loader}' a`;
    const terminal = runningOf(
      spawn("script", ["--quiet", "--return", "--command", line, "/dev/null"], {
        cwd,
        env: loadEnvironment(server.url)
      })
    );
    const progress = /^(\d+) lines, (\d+) %\r/;
    await terminal.until(
      () => progress.test(terminal.stdout()),
      "it shows its progress"
    );
    terminal.process.stdin?.write("\x03");
    assert.equal(await terminal.ended, 2);
    const [, lines, percent] = progress.exec(terminal.stdout()) ?? [];
    assert.deepEqual([Number(lines), Number(percent)], [64, 0]);
    const [, done] =
      /(\d+) lines are done: run load\.mjs again for the rest\r\n$/.exec(
        terminal.stdout()
      ) ?? [];
    const recorded = readFileSync(join(cwd, "a.loaded"), "utf8");
    assert.equal(recorded.split(" ")[1], done);
    await server.end();
  }
);

test(
  "load.mjs without its keys, killed and run again, stores lines twice",
  { timeout },
  async () => {
    const control = await loadWithKills(
      recipeWith("load.mjs", { '"Idempotency-Key"': '"X-Other"' })
    );
    assert.ok(control.ids.length > control.lines.length);
  }
);

test(
  "load.mjs warns when it continues after the window of a stream",
  { timeout },
  async () => {
    const cwd = temporaryFolder();
    writeFileSync(join(cwd, "a"), '{"id":1,"name":"Fern"}');
    const loadAgain = (): string => load(cwd, nowhere, { file: "a" }).stderr;
    const isRefused =
      /^line 1 got no response: connect ECONNREFUSED 127\.0\.0\.1:2\n$/;
    assert.match(loadAgain(), isRefused);
    assert.match(loadAgain(), isRefused);
    const before = Date.now() / 1000 - 300;
    utimesSync(join(cwd, "a.loaded"), before, before);
    assert.match(
      loadAgain(),
      /^a\.loaded is 30\d s old: .* up to 64 lines after line 0 may be stored twice\nline 1 got no response: connect/
    );
  }
);

test(
  "load.mjs ends with 2, and says why, if it cannot load the file",
  { timeout },
  async () => {
    const cwd = temporaryFolder();
    for (const name of ["a", "b", "b.loaded"])
      writeFileSync(join(cwd, name), "another 5");
    for (const [file, bearer, says] of [
      ["", token, "usage: PLANTS_TOKEN=TOKEN node load.mjs FILE"],
      ["a", "", "PLANTS_TOKEN is not set: it must be a token of the server"],
      ["a", token, "line 1 got no response: connect ECONNREFUSED 127.0.0.1:2"],
      ["b", token, "b has changed since b.loaded was written"]
    ] as const) {
      const { status, stderr } = load(cwd, nowhere, { file, bearer });
      assert.equal(status, 2);
      assert.equal(stderr, `${says}\n`);
    }
  }
);

for (const { path: node, version, major } of nodes) {
  test(
    `load.mjs and the README's readers end a line at LF alone, not at CR or U+2028, on Node ${version}`,
    { timeout },
    async () => {
      const cwd = temporaryFolder();
      const plant = '{"id":9007199254740993,"name":"a\u2028b\u2029c\u0085d"}';
      // JSON may have a CR between its tokens. A line that ends in CRLF is a plant, or empty, too.
      writeFileSync(
        join(cwd, "plants.txt"),
        `${plant.replace(",", ",\r")}\r\n\r\n`
      );
      const server = await startProcess({ cwd });
      const { stdout } = load(cwd, `${server.url}/`, { node });
      assert.equal(stdout, "2 lines are done, 0 of them refused\n");
      await server.end();
      const journal = readFileSync(join(cwd, "plants.ndjson"), "utf8");
      assert.ok(journal.includes(`"plant":${plant}`));
      const runWith = (
        name: string,
        script: string,
        command = node
      ): string => {
        writeFileSync(join(cwd, name), script);
        return spawnSync(command, [name], { cwd, encoding: "utf8" }).stdout;
      };
      assert.equal(runWith("lines.mjs", recipeOf("lines.mjs")), journal);
      const control = runWith(
        "lines.mjs",
        recipeWith("lines.mjs", { ', "latin1"': "" })
      );
      assert.equal(control === journal, major < 24, "the control");
      if (!missing(["python3", "--version"]))
        assert.equal(
          runWith("lines.py", recipeOf("lines.py"), "python3"),
          journal
        );
    }
  );
}

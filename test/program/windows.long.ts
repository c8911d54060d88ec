/** The program on Windows, which Node's builds for Windows under Wine stand for. */
import assert from "node:assert/strict";
import {
  chmodSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "node:tls";
import { tokenDigest } from "../../src/http/bearer.ts";
import { Fake } from "../nats/fake.ts";
import { marksIn } from "../support/journals.ts";
import { plant } from "../support/requests.ts";
import { temporaryTls } from "../support/serving.ts";
import { readAnswers } from "../support/exchange.ts";
import {
  eventsOf,
  program,
  temporaryFolder,
  token
} from "../support/support.ts";
import { eager } from "../support/tools.ts";
import {
  noWine,
  runWine,
  startWine,
  windowsNodes,
  windowsPath
} from "../support/wine.ts";
import { seconds } from "../support/until.ts";

const timeout = seconds(240);
const id = "9007199254740993";
const nodes: (readonly [node: string, version: string])[] = [];
for (const node of windowsNodes)
  nodes.push([node, (await runWine([node, "-v"])).stdout.trim()]);

test("the program runs under Wine", { skip: noWine }, () => {
  assert.ok(
    nodes.length > 0 && nodes.every(([, version]) => /^v\d/.test(version))
  );
});

// What depends on the version least is tested on the first one.
for (const [node] of nodes.slice(0, 1)) {
  const runs = (...args: readonly string[]) =>
    runWine([node, windowsPath(program), ...args]);

  test(
    "on Windows a tokens file, TLS and the admin listener work",
    { timeout },
    async () => {
      const cwd = temporaryFolder();
      const { key, cert } = temporaryTls();
      writeFileSync(
        join(cwd, "tokens"),
        `alice ${tokenDigest("of-alice")}\r\n`
      );
      writeFileSync(join(cwd, "my cert.pem"), cert);
      writeFileSync(join(cwd, "key.pem"), key);
      const server = await startWine(node, {
        cwd,
        env: { PLANTS_TOKEN: "" },
        args: [
          "--tokens",
          "tokens",
          "--tls-cert",
          windowsPath(join(cwd, "my cert.pem")),
          "--tls-key",
          ".\\key.pem",
          "--admin",
          "0"
        ]
      });
      const client = connect({
        port: Number(new URL(server.url).port),
        ca: cert,
        servername: "localhost"
      });
      client.write(plant.replace(token, "of-alice"));
      assert.equal((await readAnswers(client, 1))[0]?.status, 200);
      client.destroy();
      const events = eventsOf(server.stderr());
      const { admin } =
        events.find(({ msg }) => msg.startsWith("serving")) ??
        assert.fail("no event");
      assert.equal((await fetch(`${String(admin)}/readyz`)).status, 200);
      assert.deepEqual(
        events
          .filter(({ msg }) => msg.includes("not checked"))
          .map(({ msg }) => msg),
        ["owner and mode of secret files are not checked on Windows"]
      );
      assert.equal(await server.end("SIGHUP"), 0, server.stderr());
      assert.match(server.stderr(), /"msg":"draining: SIGHUP"/);
    }
  );

  test(
    "on Windows a start after an end in order changes nothing in the journal",
    { timeout },
    async () => {
      const folder = temporaryFolder();
      const path = join(folder, "plants.ndjson");
      const args = ["--store", windowsPath(path)];
      const first = await startWine(node, { args });
      assert.deepEqual(await first.post(id, ""), [200, undefined]);
      assert.equal(await first.end("SIGHUP"), 0, first.stderr());

      for (const isClosed of [true, false]) {
        const marks = marksIn(folder);
        assert.equal(marks.length, 1);
        if (!isClosed) for (const mark of marks) rmSync(mark);
        const { mtimeNs } = statSync(path, { bigint: true });
        const server = await startWine(node, { args });
        assert.equal(await server.end("SIGHUP"), 0, server.stderr());
        const after = statSync(path, { bigint: true }).mtimeNs;
        assert.equal(after === mtimeNs, isClosed, "the control: no mark");
      }
    }
  );

  test(
    "on Windows the curl line can be pasted into cmd.exe",
    { timeout },
    async () => {
      const cwd = temporaryFolder();
      const server = await startWine(node, {
        cwd,
        args: ["--base-path", "/a&b(c)"],
        env: { PLANTS_TOKEN: "" }
      });
      const line = /^ {2}(curl .*)$/m.exec(server.stdout())?.[1] ?? "";

      // Stands for curl: prints its arguments as node, like any program there, gets them.
      writeFileSync(
        join(cwd, "curl.cjs"),
        "console.log(JSON.stringify(process.argv.slice(2)))"
      );
      writeFileSync(
        join(cwd, "curl.bat"),
        `@"${windowsPath(node)}" curl.cjs %*\r\n`
      );
      writeFileSync(join(cwd, "paste.bat"), `@${line}\r\n`);
      const { stdout, stderr } = await runWine(["cmd", "/c", "paste.bat"], cwd);
      const [url = "", , bearer = "", , type = "", , body] = JSON.parse(
        stdout || stderr
      ) as string[];
      const headers = [bearer, type].map(
        (each) => each.split(": ") as [string, string]
      );
      const { status } = await fetch(url, {
        method: "POST",
        body: body ?? null,
        headers
      });
      assert.equal(url, `${server.url}/a&b(c)/plants`);
      assert.equal(status, 200);
      assert.equal(await server.end("SIGBREAK"), 0, server.stderr());
    }
  );

  test("on Windows a stream takes plants", { timeout }, async () => {
    const fake = await Fake.start();
    const server = await startWine(node, {
      args: ["--store", `nats://${fake.host}/plants`]
    });
    assert.deepEqual(await server.post(id), [200, undefined]);
    assert.match(fake.plants[0]?.payload ?? "", RegExp(id));
    assert.equal(await server.end("SIGBREAK"), 0);
  });

  test(
    "on Windows a socket, and what is no journal, read-only or missing, is refused and named",
    { timeout },
    async () => {
      const folder = temporaryFolder();
      for (const name of ["no journal", "read-only"])
        writeFileSync(join(folder, name), "a line\n");
      chmodSync(join(folder, "read-only"), 0o444);
      for (const [name, code, reason] of [
        ["no journal", 65, /header/],
        ["read-only", 74, /EPERM/],
        ["no folder\\a", 74, /ENOENT/]
      ] as const) {
        const path = windowsPath(join(folder, name));
        const refused = await runs("--port", "0", "--store", path);
        assert.equal(refused.code, code, refused.stderr);
        assert.ok(refused.stderr.includes(path), refused.stderr);
        assert.match(refused.stderr, reason);
      }
      const { code, stderr } = await runs("--socket", "a.sock");
      assert.equal(code, 69, stderr);
      assert.match(stderr, /--socket: cannot listen: /);
    }
  );

  test(
    "the control: under Wine a plant is missed that was acknowledged too early",
    { timeout },
    async () => {
      const cwd = temporaryFolder();
      const server = await startWine(node, { cwd, built: eager() });
      assert.deepEqual(await server.post(id), [200, undefined]);
      assert.equal(await server.end("SIGKILL"), "SIGKILL");
      assert.doesNotMatch(
        readFileSync(join(cwd, "plants.ndjson"), "utf8"),
        RegExp(id)
      );
    }
  );
}

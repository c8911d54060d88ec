/** The recipe for a proxy, run by nginx itself. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { catalogue } from "../../src/http/errors.ts";
import { fern } from "../support/requests.ts";
import { recipeWith } from "../support/recipes.ts";
import { listen } from "../support/serving.ts";
import {
  runningOf,
  socketFolder,
  startProcess,
  token
} from "../support/support.ts";
import { certify, missing } from "../support/tools.ts";

const options = { skip: missing(["nginx", "-v"]) };

/** Starts nginx by the recipe in front of a server, with some of its texts replaced. */
async function startNginx(
  serverPort: number,
  replaced: Readonly<Record<string, string>> = {}
) {
  const folder = socketFolder();
  const socketPath = join(folder, "nginx");
  const { cert, key } = certify(folder, "plants");
  const site = recipeWith("nginx.conf", {
    "127.0.0.1:8080": `127.0.0.1:${serverPort}`,
    "listen 443": `listen unix:${socketPath}`,
    "/etc/ssl/plants.pem": cert,
    "/etc/ssl/plants.key": key,
    ...replaced
  });
  writeFileSync(join(folder, "site.conf"), site);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${name};`)
    .join(" ");
  writeFileSync(
    join(folder, "nginx.conf"),
    `daemon off; master_process off; pid nginx.pid; error_log stderr; events {}
     http { access_log off; ${temporary} include site.conf; }`
  );
  const args = ["-e", "stderr", "-p", folder, "-c", "nginx.conf"];
  const nginx = runningOf(spawn("nginx", args, { cwd: folder }));
  // nginx writes that file once it listens.
  const listening = join(folder, "nginx.pid");
  while (!existsSync(listening) && nginx.exitCode === undefined)
    await setTimeout(5);
  assert.equal(nginx.exitCode, undefined, nginx.stderr());

  /** Posts a plant through nginx. */
  const post = async (body = fern) => {
    const sent = request({
      socketPath,
      agent: false,
      servername: "localhost",
      ca: readFileSync(cert),
      method: "POST",
      path: "/plants",
      headers: {
        "Authorization": `Bearer ${token}`,
        "Content-Type": "application/json"
      }
    });
    const response = new Promise<IncomingMessage>((resolve, reject) => {
      sent.on("response", resolve).on("error", reject);
    });
    sent.end(body);
    const { statusCode, headers } = await response;
    return { status: statusCode, headers, body: await text(await response) };
  };
  return { post, end: () => nginx.end() };
}

test(
  "nginx passes plants, errors and the request's id on, by the recipe",
  options,
  async () => {
    const server = await startProcess({ args: ["--log-requests"] });
    const nginx = await startNginx(server.port);
    const { status, headers, body } = await nginx.post();
    assert.deepEqual([status, body], [200, '{"name":"Fern"}\n']);
    const id = headers["x-request-id"];
    assert.match(`${id}`, /^[\da-f]{32}$/);
    await server.until(
      () => server.events().some(({ reqId }) => reqId === id),
      "the id is in the log"
    );
    const large = "x".repeat(2 ** 20 + 1);
    const [error] = catalogue.declaredSize;
    const { body: refusal } = await nginx.post(large);
    assert.ok(refusal.startsWith(`{"error":${error},`));
    await nginx.end();

    const control = await startNginx(server.port, {
      "client_max_body_size 2m;": ""
    });
    assert.match((await control.post(large)).body, /^<html>/);
    await control.end();
    await server.end();
  }
);

/** Posts twice to a server that closes the second request's connection: what it and the client saw. */
async function afterLoss(replaced: Readonly<Record<string, string>>) {
  let requests = 0;
  let connections = 0;
  const server = createServer((incoming, response) => {
    if (++requests === 2) incoming.socket.destroy();
    else incoming.resume().on("end", () => response.end("stored"));
  });
  server.on("connection", () => connections++);
  const nginx = await startNginx(await listen(server), replaced);
  assert.equal((await nginx.post()).status, 200);
  const { status } = await nginx.post();
  await nginx.end();
  return { status, requests, connections };
}

test(
  "nginx keeps its connection, and sends no plant twice by itself: a client gets a 502",
  options,
  async () => {
    assert.deepEqual(await afterLoss({}), {
      status: 502,
      requests: 2,
      connections: 1
    });
    const without = await afterLoss({ "keepalive 32;": "" });
    assert.equal(without.connections, 2, "the control");
    const repeating = await afterLoss({
      "proxy_next_upstream off": "proxy_next_upstream error non_idempotent"
    });
    assert.deepEqual(
      [repeating.status, repeating.requests],
      [200, 3],
      "the control"
    );
  }
);

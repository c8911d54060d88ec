/** What an operator does with the running program: posts plants, waits for its log, limits its files. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { request, type RequestOptions } from "node:http";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { postTo } from "./http.ts";
import { fern, plant } from "./requests.ts";
import { exchange, readAnswers } from "./exchange.ts";
import { post as postBytes, token, type Running } from "./support.ts";
import { missing } from "./tools.ts";
import { seconds } from "./until.ts";

/** For tests that wait for a line or a signal that may not come. */
export const timeout = seconds(60);

/** Arguments of node that run a script before the program. */
export const preload = (script: string): readonly string[] => [
  "--import",
  `data:text/javascript,${encodeURIComponent(script)}`
];

/** A script that throws outside of any request at SIGUSR2. */
export const internalError = preload(
  "process.once('SIGUSR2', () => { throw new Error('boom'); })"
);

/** A request without a token. */
export const stranger = "GET /secret-path?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";

/** Sends bytes, and reads so many responses. */
export const ask = (server: Running, bytes = plant, answers = 1) =>
  exchange(server.port, bytes, { answers });

/** Posts a plant with a token; the status, or the error's number. */
export async function statusOf(
  server: Running,
  bytes = plant
): Promise<number | undefined> {
  return (await ask(server, bytes))[0]?.status;
}

/** Posts a plant by fetch. */
export const fetchPlant = (
  url: string,
  body = fern,
  bearer = token,
  fields = {}
): Promise<Response> =>
  fetch(`${url}/plants`, {
    method: "POST",
    body,
    headers: {
      "Authorization": `Bearer ${bearer}`,
      "Content-Type": "application/json",
      ...fields
    }
  });

/** Posts a plant with an id, asserts that it is stored, and returns the response's fields. */
export async function store(server: Running, id: string, fields = "") {
  const [answer] = await ask(
    server,
    postBytes(`{"id":${id},"name":"Fern"}`, fields).toString()
  );
  assert.equal(answer?.status, 200);
  assert.equal(answer?.body, '{"name":"Fern"}\n');
  return answer?.headers ?? {};
}
export const withToken = (bearer: string): string =>
  plant.replace(token, bearer);

/** Posts a plant to a host and port or a Unix socket; the status. */
export const post = async (
  to: RequestOptions,
  bearer = token
): Promise<number> => (await postTo(to, { bearer })).status;

/** Waits until the log, or a line of text on stderr, has this so many times. */
export async function logged(
  server: Running,
  words: string,
  times = 1
): Promise<void> {
  const count = (): number =>
    Math.max(
      server.stderr().split(words).length,
      server
        .events()
        .map(({ msg }) => msg)
        .join("\n")
        .split(words).length
    ) - 1;
  await server.until(() => count() >= times, `it logged: ${words}`);
}

/** Sends SIGHUP, and waits until the log has this so many times. */
export async function hangUp(
  server: Running,
  words: string,
  times = 1
): Promise<void> {
  server.signal("SIGHUP");
  await logged(server, words, times);
}

/** A request whose head has been read, which 100 Continue shows: it delays a drain. */
export async function underWay({
  port
}: Pick<Running, "port">): Promise<Socket> {
  const socket = connect(port, "127.0.0.1").on("error", () => undefined);
  const ready = readAnswers(socket, 1);
  socket.write(
    plant.replace("Host", "Expect: 100-continue\r\nHost").replace(fern, "")
  );
  assert.equal((await ready)[0]?.status, 100);
  return socket;
}

/** Sends the body of a request that is under way; the statuses of the responses. */
export async function finish(socket: Socket): Promise<readonly number[]> {
  const answers = readAnswers(socket, 1);
  socket.write(fern);
  return (await answers).map(({ status }) => status);
}

/** Where the admin listener is, as the log says. */
export function adminOf(server: Running): RequestOptions {
  const serving = server.events().find(({ msg }) => msg.startsWith("serving"));
  const admin = String(serving?.["admin"]);
  const [, host, port] = /^http:\/\/\[?(.*?)\]?:(\d+)$/.exec(admin) ?? [];
  return port === undefined
    ? { socketPath: admin.replace("unix:", "") }
    : { host, port };
}

/** Gets a page of the admin listener. */
export async function pageOf(at: RequestOptions, path: string, method = "GET") {
  const asked = request({ ...at, path, method, agent: false }).end();
  const [answer] = await once(asked, "response");
  const { statusCode, headers } = answer;
  return { status: Number(statusCode), headers, body: await text(answer) };
}

/** The samples of /metrics: their values by name and labels. */
export async function metricsOf(
  server: Running
): Promise<ReadonlyMap<string, number>> {
  const { body } = await pageOf(adminOf(server), "/metrics");
  return new Map(
    body
      .split("\n")
      .filter((line) => /^[^#]/.test(line))
      .map((line) => {
        const [sample = "", value] = line.split(/ (?=\S+$)/);
        return [sample, Number(value)];
      })
  );
}

/** Asserts the values of some of the metrics, named without their prefix. */
export const assertSamples = (
  metrics: ReadonlyMap<string, number>,
  samples: Readonly<Record<string, number>>
) =>
  assert.deepEqual(
    Object.fromEntries(
      Object.keys(samples).map((name) => [
        name,
        metrics.get(`plant_store_${name}`)
      ])
    ),
    samples
  );

export const readyOf = async (server: Running): Promise<string> => {
  const { status, body } = await pageOf(adminOf(server), "/readyz");
  return `${status} ${body.trimEnd()}`;
};

export const noLimits = missing(["prlimit", "--version"]);

/** Limits the size of the files that a process may write, as a full disk does. */
export function limitFiles(
  pid: number | undefined,
  bytes: number | "unlimited"
): void {
  const limit = bytes === "unlimited" ? bytes : `${bytes}:unlimited`;
  assert.equal(
    spawnSync("prlimit", [`--fsize=${limit}`, "--pid", `${pid}`]).status,
    0
  );
}

/** A real cluster of three servers on loopback, and a small client of the tests' own, which reads
 * what the engine has stored. */
import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { after } from "node:test";
import { setTimeout } from "node:timers/promises";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import {
  openNats,
  type NatsOptions,
  type NatsStore
} from "../../src/nats/nats.ts";
import { temporaryFolder } from "../support/support.ts";
import { until } from "../support/until.ts";
import { Proxy } from "./proxy.ts";

/** The server's binary, or why there is none. */
function findBinary():
  { readonly path: string } | { readonly missing: string } {
  const path = process.env["PLANT_TEST_NATS"] || "nats-server";
  try {
    const version = execFileSync(path, ["--version"], { encoding: "utf8" });
    const [, major, minor] = /v(\d+)\.(\d+)/.exec(version) ?? [];
    const isNew = Number(major) * 1000 + Number(minor) >= 2014;
    return isNew ? { path } : { missing: `${version.trim()} is below 2.14` };
  } catch {
    return { missing: `no nats-server at ${path}: see PLANT_TEST_NATS` };
  }
}

const binary = findBinary();

/** For `test`'s options: without the server the tests are skipped, and say so. */
export const withCluster =
  "path" in binary
    ? {}
    : {
        skip: `SKIPPED: the replicated store is not tested: ${binary.missing}`
      };

if ("missing" in binary)
  console.error(`skipped: no replicated store: ${binary.missing}`);

// Continuous integration brings the binary: there it must not be missing.
if ("missing" in binary && process.env["PLANT_TEST_NATS_REQUIRED"]) {
  throw new Error(binary.missing);
}

export interface OpenOptions extends NatsOptions {
  readonly user?: string;
  readonly scheme?: "nats" | "tls";
  readonly query?: string;

  /** Of proxies. Default: the servers' own. */
  readonly ports?: readonly number[];
}

/** Each user of the tests' servers has its name and "pw" as the password. */
export const credentialsOf = (user: string): string =>
  `user ${user}\npassword ${user}pw\n`;

/** The environment of a program on a stream: the address, and a file with the credentials. */
export function environmentFor(PLANTS_STORE: string, credentials: string) {
  const PLANTS_STORE_CREDENTIALS = join(temporaryFolder(), "credentials");
  writeFileSync(PLANTS_STORE_CREDENTIALS, credentials, { mode: 0o600 });
  return { PLANTS_STORE, PLANTS_STORE_CREDENTIALS };
}

export interface ClusterOptions {
  /** Default: `always`. */
  readonly sync?: "always" | "2m";

  /** Further users of the account, in the servers' own syntax. */
  readonly users?: string;

  /** Lines to use instead of the accounts, and how the tests' own client logs in then. */
  readonly accounts?: string;
  readonly login?: (nonce: string) => object;

  /** The lines of a `tls` block, and what the tests' own client trusts then. */
  readonly tls?: string;
  readonly client?: ConnectionOptions;

  /** The servers begin with TLS (`handshake_first`). */
  readonly isTlsFirst?: boolean;

  /** JetStream's domain; "none": the servers have no JetStream. */
  readonly domain?: string;

  /** Further lines of each server's configuration. */
  readonly more?: string;

  readonly servers?: number;

  /** Each route goes through a proxy of its own: `cluster.route`. */
  readonly hasProxies?: boolean;

  /** The program that the servers begin with. Default: the one that all tests use. */
  readonly binary?: string | undefined;

  /** A configuration to use instead, of the chapter's ports: each server has an address of its own,
   * 127.0.0.1 to 127.0.0.3. */
  readonly template?: string;
}

interface Server {
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly monitor: number;
  readonly config: string;
  process: ChildProcess;
}

export async function freePorts(count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () =>
    createServer().listen(0, "127.0.0.1")
  );
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), "close")));
  return ports;
}

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export class Cluster {
  readonly servers: readonly Server[];
  readonly folder: string;

  readonly #options: ClusterOptions;
  readonly #routes: readonly (readonly Proxy[])[];

  private constructor(
    folder: string,
    servers: readonly Server[],
    options: ClusterOptions,
    routes: readonly (readonly Proxy[])[] = []
  ) {
    this.folder = folder;
    this.servers = servers;
    this.#options = options;
    this.#routes = routes;
  }

  /** Starts the servers and waits until all are ready; ends them after the tests of the file, or
   * of the test that started them. Without the binary there are none: the tests are skipped. A file
   * starts its servers before its first test: node runs a file's hooks once no test is left, which
   * may be while the file still waits for its servers. */
  static async start(options: ClusterOptions = {}): Promise<Cluster> {
    if ("missing" in binary) return new Cluster(temporaryFolder(), [], options);

    // Hooks run in this order: servers that still run would write to the folder that is removed.
    let cluster: Cluster | undefined;
    after(() => cluster?.stop());

    // Another process may take a port that was free: then a server ends, and others are tried.
    for (let tries = 1; ; tries++) {
      const spawned = await Cluster.#spawn(options);
      cluster = spawned;
      const ready = spawned.servers.map((server) => spawned.ready(server));
      const [failed] = (await Promise.allSettled(ready)).filter(
        ({ status }) => status === "rejected"
      );
      if (!failed) return spawned;
      await spawned.stop();
      if (tries === 3 && failed.status === "rejected") throw failed.reason;
    }
  }

  static async #spawn(options: ClusterOptions): Promise<Cluster> {
    const { servers: count = 3 } = options;
    const folder = temporaryFolder();
    const ports = await freePorts(3 * count);
    const routes = ports.slice(2 * count);

    // A later server connects to the earlier ones: there is one proxy for two servers.
    const proxies = await Promise.all(
      (options.hasProxies ? routes : []).map((_, index) =>
        Promise.all(routes.slice(0, index).map((port) => Proxy.before(port)))
      )
    );
    const servers = routes.map((_, index) => {
      const config = join(folder, `n${index + 1}.conf`);
      const others = (proxies[index] ?? [])
        .map(({ port }) => port)
        .concat(options.hasProxies ? (routes[index] ?? 0) : routes)
        .map((port) => `nats://route:routepw@127.0.0.1:${port}`);
      const text =
        options.template === undefined
          ? configOf(index, ports, others, folder, options)
          : filled(options.template, index, ports, folder);
      writeFileSync(config, text);
      const { host, port, monitor } = placeOf(index, ports, options);
      const name = `n${index + 1}`;
      return {
        name,
        host,
        port,
        monitor,
        config,
        process: spawnServer(config, folder, name, options.binary)
      };
    });
    return new Cluster(folder, servers, options, proxies);
  }

  /** The proxy on the route between two servers. */
  route(one: Server, other: Server): Proxy {
    const [to = 0, from = 0] = [one, other]
      .map((server) => this.servers.indexOf(server))
      .sort((a, b) => a - b);
    return this.#routes[from]?.[to] ?? assert.fail("no proxies");
  }

  /** The address of a stream on these servers, or on proxies before them. */
  address(
    stream: string,
    { scheme = "nats", query = "", ports = [0] }: OpenOptions = {}
  ): string {
    const own = this.servers.map(({ host, port }) => `${host}:${port}`);
    const hosts =
      ports[0] === 0 ? own : ports.map((port) => `127.0.0.1:${port}`);
    return `${scheme}://${hosts.join()}/${stream}${query}`;
  }

  /** Opens a store there, as the user that serves. */
  open(stream: string, options: OpenOptions = {}): Promise<NatsStore> {
    const {
      user = "writer",
      scheme = "nats",
      query = "",
      ports = [0],
      limits,
      ...others
    } = options;
    const address = this.address(stream, { scheme, query, ports });
    return openNats(address, {
      credentials: credentialsOf(user),
      limits: { censusMillis: 50, ...limits },
      ...others
    });
  }

  /** The environment of a program that has its store there. */
  env(stream: string, user = "writer") {
    return environmentFor(this.address(stream), credentialsOf(user));
  }

  async ready(server: Server): Promise<void> {
    await until(`${server.name} is ready`, async () => {
      assert.equal(server.process.exitCode, null, `${server.name} runs`);
      return (await fetchText(server, "/healthz")).includes('"ok"');
    });
  }

  /** Kills a server as a crash would, and waits for its end. */
  async kill(
    server: Server,
    signal: NodeJS.Signals = "SIGKILL"
  ): Promise<void> {
    const { process: child } = server;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.ref();
    child.kill(signal);
    await exited;
  }

  /** Starts one that was ended; it is ready later. */
  restart(server: Server): void {
    server.process = spawnServer(server.config, this.folder, server.name);
  }

  async leader(stream: string): Promise<Server> {
    let found: Server | undefined;
    await until("the stream has a leader", async () => {
      const info = await this.info(stream);
      found = this.servers.find(({ name }) => name === info.cluster?.leader);
      return found !== undefined;
    });
    return found ?? assert.fail(stream);
  }

  async info(stream: string): Promise<StreamInfo> {
    return this.admin<StreamInfo>(`STREAM.INFO.${stream}`);
  }

  /** Makes a stream that is right, but for what is given; waits until it has a leader. */
  async create(
    stream: string,
    changes: Readonly<Record<string, unknown>> = {}
  ): Promise<void> {
    const config = { ...rightStream(stream), ...changes };
    await until(`stream ${stream} is created`, async () => {
      const answer = await this.admin<StreamInfo>(
        `STREAM.CREATE.${stream}`,
        config
      );
      return answer.error === undefined;
    });
    await until(
      `stream ${stream} responds`,
      async () => (await this.info(stream)).state !== undefined
    );
  }

  /** Sends a request to JetStream's interface, by any server that responds. */
  async admin<Answer>(subject: string, body: unknown = ""): Promise<Answer> {
    let answer: Answer | undefined;
    const text = body === "" ? "" : JSON.stringify(body);
    await until(`an answer to ${subject}`, async () => {
      for (const server of this.servers)
        answer ??= await this.#ask<Answer>(server, subject, text);
      return answer !== undefined;
    });
    return answer ?? assert.fail(subject);
  }

  /** Asks one server; undefined if it does not respond. */
  async #ask<Answer>(
    server: Server,
    subject: string,
    text = ""
  ): Promise<Answer | undefined> {
    const { process: child } = server;
    if (child.exitCode !== null || child.signalCode !== null) return undefined;
    const client = await TestClient.open(server, this.#options).catch(
      () => undefined
    );
    const reply = await client
      ?.request(`$JS.API.${subject}`, text)
      .catch(() => undefined);
    client?.end();
    return reply ? (JSON.parse(reply) as Answer) : undefined;
  }

  /** Reads every message of a stream in order, once every server has the same leader and end. Each
   * is asked through its monitor: connected again, a leader that was cut off responds for a while
   * to requests sent to the others, with the few messages it has. */
  async read(stream: string): Promise<readonly string[]> {
    let own: readonly StreamInfo[] = [];
    await until(`all servers have the same end of ${stream}`, async () => {
      own = await Promise.all(
        this.servers.map((server) => ownInfo(server, stream))
      );
      const ends = own.map(
        ({ cluster, state }) => `${cluster?.leader} ${state?.last_seq}`
      );
      // While they elect one, all may agree that there is none.
      return Boolean(own[0]?.cluster?.leader) && new Set(ends).size === 1;
    });
    const { cluster: { leader } = {}, state = assert.fail("no state") } =
      own[0] ?? {};
    assert.equal(state.num_deleted ?? 0, 0, "the stream has no holes");
    const found =
      this.servers.find(({ name }) => name === leader) ??
      assert.fail("no leader");
    const client = await TestClient.open(found, this.#options);
    const messages: string[] = [];
    for (let seq = 1; seq <= state.last_seq; seq += 500) {
      const count = Math.min(500, state.last_seq - seq + 1);
      messages.push(
        ...(await Promise.all(
          Array.from({ length: count }, async (_, index) => {
            const body = JSON.stringify({ seq: seq + index });
            let message: { readonly data: string } | undefined;
            // A leader that has just changed may refuse: it is asked again, but not for ever.
            for (let tries = 0; !message && tries < 80; tries++) {
              if (tries > 0) await setTimeout(250);
              const reply = await client
                .request(`$JS.API.STREAM.MSG.GET.${stream}`, body)
                .catch(() => "{}");
              ({ message } = JSON.parse(reply) as {
                message?: { readonly data: string };
              });
            }
            return Buffer.from(message?.data ?? "", "base64").toString();
          })
        ))
      );
    }
    client.end();
    return messages;
  }

  async stop(): Promise<void> {
    for (const server of this.servers) {
      server.process.kill("SIGCONT");
      await this.kill(server);
    }
  }
}

export interface StreamInfo {
  readonly error?: unknown;
  readonly state?: { readonly last_seq: number; readonly num_deleted?: number };
  readonly cluster?: {
    readonly leader?: string;
    readonly replicas?: readonly {
      readonly name: string;
      readonly current: boolean;
    }[];
  };
}

export const rightStream = (name: string) => ({
  name,
  subjects: [name],
  storage: "file",
  num_replicas: 3,
  retention: "limits",
  discard: "new",
  max_bytes: -1,
  max_msgs: -1,
  max_msgs_per_subject: -1,
  max_age: 0,
  duplicate_window: 120_000_000_000,
  deny_delete: true,
  deny_purge: true
});

/** Where a server listens; the ports are those of all clients, then all monitors, then all routes. */
const placeOf = (
  index: number,
  ports: readonly number[],
  options: ClusterOptions
) => ({
  host: `127.0.0.${options.template === undefined ? 1 : index + 1}`,
  port: ports[index] ?? 0,
  monitor: ports[ports.length / 3 + index] ?? 0
});

function configOf(
  index: number,
  ports: readonly number[],
  others: readonly string[],
  folder: string,
  options: ClusterOptions
): string {
  const count = ports.length / 3;
  const { sync = "always", users = "", domain = "", tls } = options;
  const name = `n${index + 1}`;
  const { host, port, monitor } = placeOf(index, ports, options);
  const cluster =
    count === 1
      ? ""
      : `cluster {
  name: plants, listen: "127.0.0.1:${ports[2 * count + index]}"
  authorization { user: route, password: routepw, timeout: 2 }
  routes: [ ${others.join(", ")} ]
  ${options.hasProxies ? 'advertise: "127.0.0.1:1"' : ""}
}`;
  mkdirSync(join(folder, name));
  return `server_name: ${name}
listen: "${host}:${port}"
http: "${host}:${monitor}"
max_payload: 1MB
${
  domain === "none"
    ? ""
    : `jetstream {
  store_dir: "${join(folder, name)}", max_memory_store: 16MB, max_file_store: 2GB
  sync_interval: ${sync}
  ${domain === "" ? "" : `domain: ${domain}`}
}`
}
${cluster}
${
  options.accounts ??
  `accounts {
  $SYS { users: [ { user: sys, password: syspw } ], exports: [
    { service: "$SYS.REQ.SERVER.PING.VARZ", response_type: stream, accounts: [PLANTS] } ] }
  PLANTS { jetstream: enabled, imports: [
    { service: { account: "$SYS", subject: "$SYS.REQ.SERVER.PING.VARZ" }, to: "servers" } ], users: [
    { user: admin, password: adminpw }
    { user: writer, password: writerpw, permissions: {
      publish: [ "plants", "servers", "$JS.API.STREAM.INFO.plants", "$JS.API.STREAM.MSG.GET.plants" ]
      subscribe: [ "_INBOX.>" ] } }
    { user: half, password: halfpw, permissions: {
      publish: [ "$JS.API.STREAM.INFO.denied", "$JS.API.STREAM.MSG.GET.denied" ]
      subscribe: [ "_INBOX.>" ] } }
    { user: keyless, password: keylesspw, permissions: {
      publish: [ "*", "$JS.API.STREAM.INFO.*" ], subscribe: [ "_INBOX.>" ] } }
    ${users}
  ] }
}`
}
${tls === undefined ? "" : `tls { ${tls} }`}
${options.more ?? ""}
`;
}

/** The chapter's first server as this one: its name, folder, address and ports are put in. */
function filled(
  template: string,
  index: number,
  ports: readonly number[],
  folder: string
): string {
  const own = `127.0.0.${index + 1}`;
  return template
    .replace("server_name: n1", `server_name: n${index + 1}`)
    .replace("/var/lib/nats/n1", join(folder, `n${index + 1}`))
    .replace(/^listen: .*$/m, `listen: "${own}:${ports[index]}"`)
    .replace(/^http: .*$/m, "")
    .replace(/^/, `http: "${own}:${ports[3 + index]}"\n`)
    .replace(/^( +)listen: .*$/m, `$1listen: "${own}:${ports[6 + index]}"`)
    .replace(
      /(?<=@127\.0\.0\.(\d):)6222/g,
      (_, to) => `${ports[5 + Number(to)]}`
    );
}

function spawnServer(
  config: string,
  folder: string,
  name: string,
  path?: string
): ChildProcess {
  assert.ok("path" in binary);
  const log = openSync(join(folder, `${name}.log`), "a");
  const child = spawn(path ?? binary.path, ["-c", config], {
    stdio: ["ignore", log, log]
  });
  // A server that no hook ended must not keep the tests' process: its exit ends the server.
  child.unref();
  running.add(child);
  child.once("exit", () => running.delete(child));
  return child;
}

/** Stores one plant in a store that is opened for it. */
export async function storeOne(opened: Promise<NatsStore>): Promise<void> {
  const store = await opened;
  await store.append({ id: 1n, name: "Fern" });
  await store.close();
}

function fetchText(
  { host, monitor: port }: Server,
  path: string
): Promise<string> {
  return new Promise((resolve) => {
    const request = get({ host, port, path, agent: false, timeout: 1_000 });
    request.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      response.on("close", () => resolve(response.complete ? text : ""));
    });
    request
      .on("timeout", () => request.destroy())
      .on("error", () => resolve(""));
  });
}

/** What a server itself knows of a stream, whoever leads it. */
async function ownInfo(server: Server, stream: string): Promise<StreamInfo> {
  const text = await fetchText(server, "/jsz?accounts=true&streams=true");
  const { account_details: accounts = [] } = JSON.parse(text || "{}") as {
    account_details?: readonly {
      stream_detail?: readonly (StreamInfo & { name: string })[];
    }[];
  };
  const streams = accounts.flatMap(
    ({ stream_detail: details = [] }) => details
  );
  return streams.find(({ name }) => name === stream) ?? {};
}

/** A client that shares no line with the engine's. Its servers are the tests' own. */
class TestClient {
  readonly #socket: Socket;
  readonly #waiting = new Map<string, (reply: string) => void>();
  #rest = Buffer.alloc(0);
  #count = 0;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  static async open(
    { host, port }: Server,
    options: ClusterOptions
  ): Promise<TestClient> {
    const {
      client: tls,
      isTlsFirst,
      login = () => ({ user: "admin", pass: "adminpw" })
    } = options;
    let socket = connect(port, host).on("error", () => undefined);
    const secure = (): Socket =>
      connectTls({ socket, ...tls, checkServerIdentity: () => undefined }).on(
        "error",
        () => undefined
      );
    if (isTlsFirst) socket = secure();
    const [info] = await once(socket, "data");
    const { nonce = "" } = JSON.parse(
      /{.*}/.exec(String(info))?.[0] ?? "{}"
    ) as { nonce?: string };
    if (tls && !isTlsFirst) socket = secure();
    const client = new TestClient(socket);
    socket.on("error", () => undefined);
    socket.on("data", (bytes: Buffer) => client.#read(bytes));
    if (tls && !isTlsFirst) await once(socket, "secureConnect");
    const hello = {
      verbose: false,
      pedantic: false,
      headers: true,
      no_responders: true
    };
    socket.write(
      `CONNECT ${JSON.stringify({ ...hello, ...login(nonce) })}\r\nSUB _INBOX.admin.> 1\r\n`
    );
    return client;
  }

  request(subject: string, body: string): Promise<string> {
    const reply = `_INBOX.admin.${process.pid}.${++this.#count}`;
    return new Promise((resolve, reject) => {
      const timer = globalThis.setTimeout(
        () => reject(new Error("no answer")),
        3_000
      );
      this.#waiting.set(reply, (text) => {
        clearTimeout(timer);
        this.#waiting.delete(reply);
        if (text === "") reject(new Error("no server responds"));
        else resolve(text);
      });
      this.#socket.write(
        `PUB ${subject} ${reply} ${Buffer.byteLength(body)}\r\n${body}\r\n`
      );
    });
  }

  end(): void {
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const end = this.#rest.indexOf("\r\n");
      if (end < 0) return;
      const line = this.#rest.toString("latin1", 0, end);
      const message = /^(H?)MSG (\S+) \S+ +(?:(\d+) )?(\d+)$/.exec(line);
      const bodyEnd = end + 2 + (message ? Number(message[4]) + 2 : 0);
      if (this.#rest.length < bodyEnd) return;
      if (line === "PING") this.#socket.write("PONG\r\n");
      const body = this.#rest.toString("utf8", end + 2, bodyEnd - 2);
      this.#rest = this.#rest.subarray(bodyEnd);
      if (message)
        this.#waiting.get(message[2] ?? "")?.(message[1] === "H" ? "" : body);
    }
  }
}

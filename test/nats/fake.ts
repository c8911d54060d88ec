/** A server that sends what a test wants, and keeps what it received: for what a real server does
 * not send on demand. */
import assert from "node:assert/strict";
import { once } from "node:events";
import {
  createServer,
  type AddressInfo,
  type Server,
  type Socket
} from "node:net";
import { after } from "node:test";
import {
  openNats,
  type NatsLimits,
  type NatsOptions,
  type NatsStore
} from "../../src/nats/nats.ts";
import { StoreError } from "../../src/store.ts";
import { ExitError } from "../../src/failure.ts";
import { until } from "../support/until.ts";
import { rightStream } from "./cluster.ts";

export interface Published {
  readonly subject: string;
  readonly reply: string;
  readonly headers: string;
  readonly payload: string;

  /** Headers and payload as they came, one character for each byte. */
  readonly message: string;
}

export interface Script {
  /** Members of INFO to change. */
  readonly info?: Readonly<Record<string, unknown>>;

  /** Members of the stream's settings to change. */
  readonly config?: Readonly<Record<string, unknown>>;

  /** The `cluster` of STREAM.INFO: its leader and replicas. Default: n1 leads it. */
  readonly cluster?: Readonly<Record<string, unknown>>;

  /** The JetStream domain that STREAM.INFO names. Default: none. */
  readonly domain?: string;

  /** What the subject "servers" is answered with: of each server what it says of itself. Default: a
   * status that says that no server took the request. */
  readonly varzs?: readonly object[];

  /** What STREAM.INFO is answered with, instead of all that is right; "nobody": a status that says that
   * no server took the request. */
  readonly stream?: Readonly<Record<string, unknown>> | "nobody";

  /** Said instead of INFO. */
  readonly greeting?: string;

  /** Ends each connection behind the greeting. */
  readonly hangsUp?: boolean;

  /** Said in answer to CONNECT, instead of nothing; a function gets what the connection has said. */
  readonly onConnect?: string | ((said: string) => string);

  /** Answers to PING. Default: PONG. */
  readonly onPing?: string;

  /** What a plant is answered with: a message to its reply, whole lines, or nothing. */
  readonly onPlant?: (
    published: Published,
    count: number,
    fake: Fake
  ) => Answer;
}

export type Answer = string | { readonly raw: string } | undefined;

export const ack = (seq: number, more = ""): string =>
  `{"stream":"plants","seq":${seq}${more}}`;
export const fails = (
  code: number,
  description = "it fails",
  status = 503,
  stream = "plants"
): string =>
  JSON.stringify({
    error: { code: status, err_code: code, description },
    stream,
    seq: 0
  });

/** Responds to plants and to requests for them as a stream that stores each id once, in `kept`. */
export const storing =
  (kept: Published[]) =>
  ({ subject, payload, headers, ...rest }: Published): string => {
    if (subject.includes("MSG.GET")) {
      const { seq } = JSON.parse(payload) as { seq: number };
      const message = kept[seq - 1] ?? assert.fail(payload);
      return found(seq, message.payload, message.headers);
    }
    const idOf = (text: string): string | undefined =>
      /^Nats-Msg-Id: (.*)\r$/m.exec(text)?.[1];
    const known =
      kept.findIndex((each) => idOf(each.headers) === idOf(headers)) + 1;
    return known > 0
      ? ack(known, ',"duplicate":true')
      : ack(kept.push({ subject, payload, headers, ...rest }));
  };

/** A message with a response, as a server sends it. */
export const respond = (reply: string | undefined, text: string): string =>
  `MSG ${reply} 1 ${Buffer.byteLength(text)}\r\n${text}\r\n`;

/** A message without payload, as a server sends it where nobody takes what was published. */
export const nobody = (subject: string): { readonly raw: string } => ({
  raw: `HMSG ${subject} 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n`
});

export class Fake {
  /** What was published on the stream's subject, by all connections. */
  readonly plants: Published[] = [];
  connections = 0;

  /** How often the servers were asked for what they say of themselves. */
  asked = 0;

  /** What each connection has said. */
  readonly said: string[] = [];
  script: Script;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(script: Script) {
    this.script = script;
    this.#server = createServer((socket) => this.#serve(socket));
  }

  static async start(script: Script = {}): Promise<Fake> {
    const fake = new Fake(script);
    fake.#server.listen(0, "127.0.0.1");
    await once(fake.#server, "listening");
    after(() => fake.stop());
    return fake;
  }

  get host(): string {
    return `127.0.0.1:${this.port}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The number of connections that are open. */
  get open(): number {
    return this.#sockets.size;
  }

  /** Cuts all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  say(text: string): void {
    for (const socket of this.#sockets) socket.write(text);
  }

  async stop(): Promise<void> {
    this.cut();
    if (this.#server.listening) await once(this.#server.close(), "close");
  }

  #serve(socket: Socket): void {
    this.connections++;
    const index = this.said.push("") - 1;
    this.#sockets.add(socket);
    socket
      .on("close", () => this.#sockets.delete(socket))
      .on("error", () => undefined);
    socket.setNoDelay(true);
    const info = {
      cluster: "as long as a large one's".repeat(100),
      version: "2.15.1",
      server_id: "NA",
      headers: true,
      max_payload: 1_048_576,
      jetstream: true
    };
    const {
      greeting = `INFO ${JSON.stringify({ ...info, ...this.script.info })}\r\n`
    } = this.script;
    socket.write(greeting);
    if (this.script.hangsUp) return void socket.end();
    let rest = "";
    socket.setEncoding("latin1").on("data", (text: string) => {
      this.said[index] += text;
      rest += text;
      for (
        let taken = this.#take(socket, rest, index);
        taken > 0;
        taken = this.#take(socket, rest, index)
      ) {
        rest = rest.slice(taken);
      }
    });
  }

  /** Answers one operation; how many characters it had, 0 where it is not whole. */
  #take(socket: Socket, text: string, index: number): number {
    const end = text.indexOf("\r\n") + 2;
    if (end < 2) return 0;
    const line = text.slice(0, end - 2);
    const publish = /^HPUB (\S+) (\S+) (\d+) (\d+)$/.exec(line);
    if (!publish) {
      if (line === "PING") socket.write(this.script.onPing ?? "PONG\r\n");
      const { onConnect = "" } = this.script;
      if (line.startsWith("CONNECT "))
        socket.write(
          typeof onConnect === "string"
            ? onConnect
            : onConnect(this.said[index] ?? "")
        );
      return end;
    }
    const [, subject = "", reply = "", headerBytes, total] = publish;
    const whole = end + Number(total) + 2;
    if (text.length < whole) return 0;
    const headers = text.slice(end, end + Number(headerBytes));
    const message = text.slice(end, whole - 2);
    const bytes = Buffer.from(message.slice(headers.length), "latin1");
    const payload = bytes.toString();
    this.#answer(socket, { subject, reply, headers, payload, message });
    return whole;
  }

  #answer(socket: Socket, published: Published): void {
    const { subject, reply } = published;
    const {
      stream,
      config,
      cluster = { leader: "n1" },
      domain,
      onPlant = () => ack(this.plants.length)
    } = this.script;
    const write = (text: string) => socket.write(respond(reply, text));
    let answer: Answer;
    if (published.payload === "" && subject.includes("STREAM.MSG.GET")) return;
    if (published.headers.includes("Expected-Stream: .\r")) {
      write(fails(10060, "", 400));
      return;
    }
    if (subject === "servers") {
      this.asked++;
      const { varzs } = this.script;
      for (const data of varzs ?? []) write(JSON.stringify({ data }));
      if (!varzs) socket.write(nobody(reply).raw);
      return;
    }
    if (subject.includes(".API.STREAM.INFO.")) {
      const right = {
        config: { ...patientStream(), ...config },
        state: { messages: 0 },
        cluster,
        domain
      };
      answer =
        stream === "nobody" ? nobody(reply) : JSON.stringify(stream ?? right);
    } else {
      this.plants.push(published);
      answer = onPlant(published, this.plants.length, this);
    }
    if (answer === undefined) return;
    if (typeof answer === "string") write(answer);
    else socket.write(answer.raw);
  }
}

/** What a server says of itself if it is right, but for what is given. */
export const varzOf = (server_name: string, changes: object = {}) => ({
  server_name,
  version: "2.15.1",
  jetstream: { config: { sync_always: true } },
  ...changes
});

/**
 * Limits under which nothing happens by itself on a busy machine: what gives up does so after
 * a minute, and what is done again is done soon. A test about a deadline sets its own.
 */
export const patient = {
  appendMillis: 60_000,
  handshakeMillis: 60_000,
  unreachableMillis: 60_000,
  noProgressMillis: 60_000,
  checkMillis: 60_000,
  pingMillis: 60_000,
  ackTimeoutMillis: 200,
  retryMillis: 20,
  censusMillis: 10,
  reconnectMillisMin: 10,
  reconnectMillisMax: 50
};

/** The settings of a stream that these limits accept. */
const patientStream = () => ({
  ...rightStream("plants"),
  duplicate_window: 4 * patient.appendMillis * 1e6
});

/** A store on fake servers; closed after the file's tests. */
export async function openFake(
  fakes: readonly Fake[],
  { limits, ...options }: NatsOptions = {},
  query = ""
): Promise<NatsStore> {
  const hosts = fakes.map(({ host }) => host).join();
  const store = await openNats(`nats://${hosts}/plants${query}`, {
    credentials: "user writer\npassword s3cret\n",
    limits: { ...patient, ...limits },
    ...options
  });
  after(() => store.close());
  return store;
}

/** A fake server and a store on it, with what the store reports. */
export async function open(
  script: Script = {},
  limits: Partial<NatsLimits> = {}
) {
  const fake = await Fake.start(script);
  const warnings: string[] = [];
  const store = await openFake([fake], {
    limits,
    warn: (line) => void warnings.push(line)
  });
  return { fake, store, warnings };
}

/** Asserts that something fails with an ExitError, and that its message shows no secret. */
export const refused = (
  work: Promise<unknown>,
  code: string,
  pattern: RegExp
): Promise<void> =>
  assert.rejects(work, (error) => {
    assert.ok(error instanceof ExitError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    assert.doesNotMatch(error.message, /s3cret|pw\b/);
    return true;
  });

/** "stored", "replayed", or the code of the StoreError. */
export const outcomeOf = (append: Promise<unknown>): Promise<string> =>
  append.then(
    (outcome) => (outcome === "replayed" ? outcome : "stored"),
    (error: unknown) =>
      error instanceof StoreError ? error.code : `fault: ${String(error)}`
  );

export const fern = { id: 9223372036854775807n, name: "Fern ä€", tag: "shade" };
export const append = (store: NatsStore, name = fern.name): Promise<string> =>
  outcomeOf(store.append({ ...fern, name }));

/** Whether a plant is stored. */
export const stores = async (store: NatsStore): Promise<boolean> =>
  (await append(store)) === "stored";

/** Waits until plants are stored. */
export const resumes = (store: NatsStore): Promise<void> =>
  until("plants are stored", () => stores(store));

/** The response to STREAM.MSG.GET, as a server writes it. */
export const found = (
  seq: number,
  payload: string | Buffer,
  headers = ""
): string =>
  JSON.stringify({
    type: "io.nats.jetstream.api.v1.stream_msg_get_response",
    message: {
      subject: "plants",
      seq,
      hdrs: Buffer.from(headers, "latin1").toString("base64"),
      data: Buffer.from(payload).toString("base64"),
      time: "2026-11-21T10:47:01.516123456Z"
    }
  });
